// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/pickle_rebuild.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "worker/torch/files/pickle_array.h"

namespace cpprun::pickle {
namespace {

using Values = std::vector<Value>;

constexpr std::array<std::string_view, 5> functions = {
    "collections.OrderedDict", "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_parameter", "torch.Size"};

// What is copied from one value into another has to be short: a small file could ask for the copy
// of a large value a million times.
constexpr std::size_t dimensions_max = 64;  // LibTorch's own limit
constexpr std::size_t name_bytes_max = 256;

template <class T>
const T* as(const Values& values, Index index) {
  return std::get_if<T>(&values.at(index));
}

// Absent unless all of them are whole numbers, none negative.
std::optional<std::vector<std::int64_t>> counts(const Values& values, Index index) {
  const Tuple* const tuple = as<Tuple>(values, index);
  if (tuple == nullptr || tuple->items.size() > dimensions_max) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const Index item : tuple->items) {
    const auto* const number = as<std::int64_t>(values, item);
    if (number == nullptr || *number < 0) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

// (storage, offset, sizes, strides, requires_grad, hooks), and in version 3 the dtype.
Result<Value> tensor_of(const Values& values, const std::vector<Index>& arguments, bool typed) {
  if (arguments.size() < (typed ? 7U : 6U) || as<Storage>(values, arguments[0]) == nullptr) {
    return failure("a tensor without a storage");
  }
  // What may follow says that the values are to be conjugated or negated; without it they would be
  // read wrongly.
  const std::size_t last = typed ? 7 : 6;
  if (arguments.size() > last) {
    const auto* const bits = as<Dict>(values, arguments[last]);
    if (bits == nullptr || !bits->items.empty()) {
      return failure("a conjugated or negated view: save it with .resolve_conj().resolve_neg()");
    }
  }
  const auto* const offset = as<std::int64_t>(values, arguments[1]);
  const auto sizes = counts(values, arguments[2]);
  const auto strides = counts(values, arguments[3]);
  if (offset == nullptr || *offset < 0 || !sizes || !strides || sizes->size() != strides->size()) {
    return failure("a tensor whose offset, sizes or strides make no sense");
  }
  Tensor tensor{.storage = arguments[0], .offset = *offset, .sizes = *sizes, .strides = *strides};
  if (typed) {
    const auto* const dtype = as<Global>(values, arguments[6]);
    if (dtype == nullptr) return failure("a tensor without a type");
    tensor.dtype = dtype->name;
  }
  return tensor;
}

}  // namespace

bool is_known(const std::string& global) {
  if (std::find(functions.begin(), functions.end(), global) != functions.end()) return true;
  // torch.FloatStorage and the like, torch.float32 and the like; nothing in a module below.
  if (is_array_name(global)) return true;
  constexpr std::string_view torch = "torch.";
  if (global.size() > name_bytes_max) return false;
  if (global == "torch.storage.UntypedStorage") return true;
  return global.starts_with(torch) && global.find('.', torch.size()) == std::string::npos;
}

Result<Value> rebuild(const Values& values, const std::string& global,
                      const std::vector<Index>& arguments) {
  if (global == "collections.OrderedDict") {
    // Python 3 fills it with entries afterwards.
    if (!arguments.empty()) return failure("an OrderedDict made of something else");
    return Dict{};
  }
  if (global == "torch._utils._rebuild_tensor_v2") return tensor_of(values, arguments, false);
  if (global == "torch._utils._rebuild_tensor_v3") return tensor_of(values, arguments, true);
  if (global == "torch._utils._rebuild_parameter") {
    const auto* const tensor = arguments.empty() ? nullptr : as<Tensor>(values, arguments[0]);
    if (tensor == nullptr) return failure("a parameter that is no tensor");
    return *tensor;
  }
  if (global == "torch.Size") {
    const auto* const sizes = arguments.empty() ? nullptr : as<Tuple>(values, arguments[0]);
    if (sizes == nullptr || sizes->items.size() > dimensions_max) {
      return failure("a torch.Size that is no tuple of sizes");
    }
    return *sizes;
  }
  if (is_array_name(global)) return make_array_part(values, global, arguments);
  return failure(fmt::format("it asks to call {}, which is not done here", global));
}

Result<Value> storage_of(const Values& values, const std::vector<Index>& id) {
  const auto text = [&](std::size_t at) { return as<std::string>(values, id[at]); };
  const bool known = id.size() >= 5 && text(0) != nullptr && *text(0) == "storage" &&
                     as<Global>(values, id[1]) != nullptr && text(2) != nullptr &&
                     text(2)->size() <= name_bytes_max;
  if (!known) return failure("a reference to something that is no storage");
  return Storage{.type = as<Global>(values, id[1])->name, .key = *text(2)};
}

}  // namespace cpprun::pickle
