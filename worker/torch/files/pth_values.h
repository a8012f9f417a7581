// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Creates values, including tensors, from the description in a pickle.

#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/torch/files/pickle.h"

namespace cpprun {

// A tensor type under Python's names. Types with a storage class of their own in PyTorch 1.6 are
// written by that class, later types by their dtype.
struct PthType {
  std::string_view storage;  // FloatStorage; empty
  std::string_view dtype;    // float32
  at::ScalarType type;
};
const std::vector<PthType>& pth_types();

// Returns the bytes of the storage `key` and their number.
using ReadStorage = std::function<std::pair<at::DataPtr, std::size_t>(const std::string& key)>;

// Throws FileError, which names `path`, if a tensor exceeds its storage, a value contains itself,
// or the description is invalid in another way.
c10::IValue values_of(const pickle::Pickle& pickle, const std::string& path,
                      const ReadStorage& read_storage);

}  // namespace cpprun
