// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/pickle_array.h"

#include <algorithm>
#include <array>

namespace cpprun::pickle {
namespace {

using Values = std::vector<Value>;

constexpr std::string_view dtype_name = "numpy.dtype";
// numpy has moved the function; ndarray is what it is called with.
constexpr std::array<std::string_view, 4> module_names = {"numpy.core.multiarray._reconstruct",
                                                          "numpy._core.multiarray._reconstruct",
                                                          "numpy.ndarray", dtype_name};
constexpr std::size_t type_bytes_max = 16;
constexpr std::size_t array_dimensions_max = 64;

template <class T>
const T* value_as(const Values& values, Index index) {
  return std::get_if<T>(&values.at(index));
}

// (version, shape, dtype, whether columns come first, bytes)
Result<Value> filled(const Values& values, const Tuple& state) {
  if (state.items.size() != 5) return failure("an array whose state has not five parts");
  const auto* const shape = value_as<Tuple>(values, state.items[1]);
  const auto* const type = value_as<Global>(values, state.items[2]);
  const auto* const by_columns = value_as<bool>(values, state.items[3]);
  if (shape == nullptr || shape->items.size() > array_dimensions_max || type == nullptr ||
      !type->name.starts_with(dtype_name) ||
      value_as<std::string>(values, state.items[4]) == nullptr) {
    return failure("an array whose shape, type or content makes no sense");
  }
  if (by_columns != nullptr && *by_columns) return failure("an array that is stored by columns");
  Array array{.dtype = type->name.substr(dtype_name.size() + 1), .bytes = state.items[4]};
  for (const Index item : shape->items) {
    const auto* const size = value_as<std::int64_t>(values, item);
    if (size == nullptr || *size < 0) return failure("an array with a size that is none");
    array.sizes.push_back(*size);
  }
  return array;
}

}  // namespace

bool is_array_name(const std::string& global) {
  return std::find(module_names.begin(), module_names.end(), global) != module_names.end();
}

Result<Value> make_array_part(const Values& values, const std::string& global,
                              const std::vector<Index>& arguments) {
  if (global.ends_with("._reconstruct")) return Array{};
  const auto* const type = global == dtype_name && !arguments.empty()
                               ? value_as<std::string>(values, arguments[0])
                               : nullptr;
  if (type == nullptr || type->size() > type_bytes_max) return failure("an array without a type");
  return Global{std::string(dtype_name) + ':' + *type};
}

Result<Value> with_state(const Values& values, Index target, Index state) {
  const auto* const parts = value_as<Tuple>(values, state);
  if (value_as<Array>(values, target) != nullptr && parts != nullptr) return filled(values, *parts);
  // A type's state says how its bytes are ordered; that of bytes has none.
  if (const auto* const type = value_as<Global>(values, target);
      type != nullptr && type->name.starts_with(std::string(dtype_name) + ':')) {
    return *type;
  }
  return failure("an object with a state");
}

}  // namespace cpprun::pickle
