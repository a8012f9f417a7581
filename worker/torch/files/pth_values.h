// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Turns the description of values that a pickle gives into values, tensors included.

#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/torch/files/pickle_reader.h"

namespace cpprun {

// A type of tensors under Python's names. Those that had a class of storage of their own in PyTorch
// 1.6 are written by it, the later ones by their dtype.
struct PthType {
  std::string_view storage;  // FloatStorage; empty
  std::string_view dtype;    // float32
  at::ScalarType type;
};
const std::vector<PthType>& pth_types();

// The bytes of the storage of that name, and how many they are.
using ReadStorage = std::function<std::pair<at::DataPtr, std::size_t>(const std::string& key)>;

// Throws FileError, which names `path`, for a tensor that reaches beyond its storage, a value that
// contains itself, and whatever else makes no sense.
c10::IValue values_of(const pickle::Pickle& pickle, const std::string& path,
                      const ReadStorage& read_storage);

}  // namespace cpprun
