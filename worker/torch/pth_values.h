#pragma once
// Turns the description of values that a pickle gives into values, tensors included.

#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <utility>

#include "worker/env/pickle_reader.h"

namespace cpprun {

// The bytes of the storage of that name, and how many they are.
using ReadStorage = std::function<std::pair<at::DataPtr, std::size_t>(const std::string& key)>;

// Throws FileError, which names `path`, for a tensor that reaches beyond its storage, a value that
// contains itself, and whatever else makes no sense.
c10::IValue values_of(const pickle::Pickle& pickle, const std::string& path,
                      const ReadStorage& read_storage);

}  // namespace cpprun
