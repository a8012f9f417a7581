// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/pth_values.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/ivalue_inl.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>

#include "worker/torch/compat/versions.h"
#include "worker/torch/files/bounds.h"
#include "worker/torch/files/safetensors_file.h"

namespace cpprun {
namespace {

// The number of elements from the start of the storage to the tensor's last element; absent on
// overflow.
std::optional<std::int64_t> reach_of(const pickle::Tensor& tensor) {
  std::int64_t last = tensor.offset;
  std::int64_t count = 1;
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) return 0;
    std::int64_t step = 0;
    if (__builtin_mul_overflow(tensor.sizes[i] - 1, tensor.strides[i], &step)) return {};
    if (__builtin_add_overflow(last, step, &last)) return {};
    // With a stride of zero, a few bytes may claim any number of elements.
    if (__builtin_mul_overflow(count, tensor.sizes[i], &count)) return {};
  }
  if (__builtin_add_overflow(last, 1, &last)) return {};
  return last;
}

class Values {
 public:
  Values(const pickle::Pickle& pickle, const std::string& path, const ReadStorage& read_storage)
      : pickle_(pickle),
        path_(path),
        read_storage_(read_storage),
        made_(pickle.values.size()),
        being_made_(pickle.values.size()) {}

  c10::IValue of(pickle::Index index) {
    if (made_[index]) return *made_[index];
    if (being_made_[index]) refuse("a value contains itself");
    if (++depth_ > bounds::pickle_depth_max) refuse("values are nested too deeply");
    being_made_[index] = true;
    c10::IValue value =
        std::visit([this](const auto& each) { return make(each); }, pickle_.values[index]);
    being_made_[index] = false;
    --depth_;
    made_[index] = value;
    return value;
  }

 private:
  c10::IValue make(const pickle::None&) { return {}; }
  c10::IValue make(bool value) { return value; }
  c10::IValue make(std::int64_t value) { return value; }
  c10::IValue make(double value) { return value; }
  c10::IValue make(const std::string& value) { return value; }
  c10::IValue make(const pickle::Global& value) { return value.name; }
  c10::IValue make(const pickle::Storage& value) {
    refuse(fmt::format("storage {} outside a tensor", value.key));
  }

  c10::IValue make(const pickle::Array&) {
    refuse("NumPy arrays are not supported: save a tensor (torch.from_numpy)");
  }

  c10::IValue make(const pickle::List& value) {
    c10::impl::GenericList list(c10::AnyType::get());
    for (const pickle::Index item : value.items) list.push_back(of(item));
    return list;
  }

  c10::IValue make(const pickle::Tuple& value) {
    std::vector<c10::IValue> items;
    for (const pickle::Index item : value.items) items.push_back(of(item));
    return c10::ivalue::Tuple::create(std::move(items));
  }

  c10::IValue make(const pickle::Dict& value) {
    c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
    for (const auto& [key, item] : value.items) {
      const c10::IValue name = of(key);
      if (!name.isString() && !name.isInt() && !name.isDouble() && !name.isBool()) {
        refuse("a dict key is neither a string nor a number");
      }
      dict.insert_or_assign(name, of(item));
    }
    return dict;
  }

  c10::IValue make(const pickle::Tensor& value) {
    const auto& stored = std::get<pickle::Storage>(pickle_.values[value.storage]);
    const at::ScalarType type = type_of(value, stored);
    const c10::Storage storage = storage_of(stored.key);
    const auto reach = reach_of(value);
    const auto held = static_cast<std::int64_t>(storage.nbytes() / c10::elementSize(type));
    if (!reach || *reach > held) {
      refuse(fmt::format("a tensor of shape [{}] exceeds its storage {} of {} elements",
                         fmt::join(value.sizes, ", "), stored.key, held));
    }
    at::Tensor tensor = at::empty({0}, type);
    tensor.set_(storage, value.offset, value.sizes, value.strides);
    return tensor;
  }

  at::ScalarType type_of(const pickle::Tensor& tensor, const pickle::Storage& storage) {
    constexpr std::string_view torch = "torch.";
    for (const PthType& each : pth_types()) {
      const std::string_view name = tensor.dtype.empty() ? each.storage : each.dtype;
      const std::string& said = tensor.dtype.empty() ? storage.type : tensor.dtype;
      if (!name.empty() && said.starts_with(torch) && said.substr(torch.size()) == name) {
        return each.type;
      }
    }
    refuse(
        fmt::format("unknown tensor type {}", tensor.dtype.empty() ? storage.type : tensor.dtype));
  }

  c10::Storage storage_of(const std::string& key) {
    const auto found = storages_.find(key);
    if (found != storages_.end()) return found->second;
    auto [data, size] = read_storage_(key);
    const c10::Storage storage(c10::Storage::use_byte_size_t(), size, std::move(data),
                               c10::GetCPUAllocator(), /*resizable=*/false);
    return storages_.emplace(key, storage).first->second;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw FileError(fmt::format("\"{}\": {}", path_, what));
  }

  const pickle::Pickle& pickle_;
  const std::string& path_;
  const ReadStorage& read_storage_;
  std::vector<std::optional<c10::IValue>> made_;
  std::vector<bool> being_made_;
  int depth_ = 0;
  std::map<std::string, c10::Storage> storages_;
};

}  // namespace

const std::vector<PthType>& pth_types() {
  static const std::vector<PthType> types = {
      {"FloatStorage", "float32", at::kFloat},
      {"DoubleStorage", "float64", at::kDouble},
      {"HalfStorage", "float16", at::kHalf},
      {"BFloat16Storage", "bfloat16", at::kBFloat16},
      {"LongStorage", "int64", at::kLong},
      {"IntStorage", "int32", at::kInt},
      {"ShortStorage", "int16", at::kShort},
      {"CharStorage", "int8", at::kChar},
      {"ByteStorage", "uint8", at::kByte},
      {"BoolStorage", "bool", at::kBool},
      {"ComplexFloatStorage", "complex64", at::kComplexFloat},
      {"ComplexDoubleStorage", "complex128", at::kComplexDouble},
      {"", "complex32", at::kComplexHalf},
      {"", "uint16", at::kUInt16},
      {"", "uint32", at::kUInt32},
      {"", "uint64", at::kUInt64},
      {"", "float8_e4m3fn", at::kFloat8_e4m3fn},
      {"", "float8_e4m3fnuz", at::kFloat8_e4m3fnuz},
      {"", "float8_e5m2", at::kFloat8_e5m2},
      {"", "float8_e5m2fnuz", at::kFloat8_e5m2fnuz},
      {"", "float8_e8m0fnu", compat::float8_e8m0fnu<at::ScalarType>()}};
  return types;
}

c10::IValue values_of(const pickle::Pickle& pickle, const std::string& path,
                      const ReadStorage& read_storage) {
  return Values(pickle, path, read_storage).of(pickle.root);
}

}  // namespace cpprun
