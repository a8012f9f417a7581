// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/pth_file.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/ivalue_inl.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/empty.h>
#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <tuple>
#include <utility>

#include "worker/env/io/durable_file.h"
#include "worker/torch/files/bounds.h"
#include "worker/torch/files/pickle.h"
#include "worker/torch/files/pth_values.h"

namespace cpprun {
namespace {

using GenericDict = c10::impl::GenericDict;
using GenericList = c10::impl::GenericList;

GenericDict empty_dict() {
  return GenericDict(c10::AnyType::get(), c10::AnyType::get());
}

// Null for a type that Python cannot read either.
const PthType* type_of(const at::Tensor& tensor) {
  for (const PthType& each : pth_types()) {
    if (each.type == tensor.scalar_type()) return &each;
  }
  return nullptr;
}

// A tree that Python reads without type annotations: plain dicts and lists, and tensors that cover
// their whole storage, so that a view does not save the tensor it was cut from.
class Plain {
 public:
  explicit Plain(const std::string& path) : path_(path) {}

  c10::IValue of(const c10::IValue& value, int depth = 0) {
    if (depth > bounds::pickle_depth_max) refuse("values are nested too deeply");
    if (value.isTensor()) return tensor(value.toTensor());
    if (value.isGenericDict()) {
      GenericDict dict = empty_dict();
      for (const auto& entry : value.toGenericDict()) {
        const c10::IValue key = of(entry.key(), depth + 1);
        const auto name = key.isString() ? key.toStringRef()
                          : key.isInt()  ? std::to_string(key.toInt())
                                         : std::string("?");
        dict.insert(key, named(name, entry.value(), depth + 1));
      }
      return dict;
    }
    if (value.isList()) {
      GenericList list(c10::AnyType::get());
      std::size_t at = 0;
      for (const c10::IValue& item : value.toListRef()) {
        list.push_back(named(std::to_string(at++), item, depth + 1));
      }
      return list;
    }
    if (value.isTuple()) {
      std::vector<c10::IValue> items;
      for (const c10::IValue& item : value.toTupleRef().elements()) {
        items.push_back(named(std::to_string(items.size()), item, depth + 1));
      }
      return c10::ivalue::Tuple::create(std::move(items));
    }
    if (value.isInt() || value.isDouble() || value.isBool() || value.isString() || value.isNone()) {
      return value;
    }
    refuse("unsupported type " + value.tagKind());
  }

 private:
  c10::IValue named(std::string name, const c10::IValue& value, int depth) {
    names_.push_back(std::move(name));
    c10::IValue plain = of(value, depth);
    names_.pop_back();
    return plain;
  }

  at::Tensor tensor(const at::Tensor& given) {
    const auto refuse_tensor = [this](const std::string& why) {
      refuse(names_.empty() ? fmt::format("the tensor {}", why)
                            : fmt::format("the tensor \"{}\" {}", fmt::join(names_, "."), why));
    };
    if (!given.defined() || given.layout() != at::kStrided || given.is_quantized()) {
      refuse_tensor("is undefined, sparse or quantized");
    }
    if (type_of(given) == nullptr) {
      refuse_tensor(fmt::format("has the type {}, which torch.load does not support",
                                c10::toString(given.scalar_type())));
    }
    const StorageKey place{given.unsafeGetTensorImpl()->storage().unsafeGetStorageImpl(),
                           given.scalar_type(), given.storage_offset(), given.sizes().vec(),
                           given.strides().vec()};
    at::Tensor& plain = tensors_[place];
    if (plain.defined()) return plain;
    // Conjugation or negation of a view is a flag beside the bytes, and only the bytes are written.
    plain = given.detach().cpu().resolve_conj().resolve_neg().contiguous();
    // Each storage is written once, with the type of its first tensor.
    const auto type = types_.emplace(plain.storage().unsafeGetStorageImpl(), plain.scalar_type());
    const bool retyped = type.first->second != plain.scalar_type();
    if (retyped || plain.storage().nbytes() != plain.nbytes()) plain = plain.clone();
    return plain;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw FileError(fmt::format("cannot write \"{}\": {}", path_, what));
  }

  const std::string& path_;
  std::vector<std::string> names_;  // of the keys and indices that lead to the current value
  // Storage, type, offset, sizes, strides: if all agree, it is the same tensor. A matrix and its
  // transpose differ only in the strides.
  using StorageKey = std::tuple<const void*, at::ScalarType, std::int64_t,
                                std::vector<std::int64_t>, std::vector<std::int64_t>>;
  std::map<StorageKey, at::Tensor> tensors_;
  std::map<const void*, at::ScalarType> types_;
};

// Writes a plain tree to the pickler and collects the storages for separate records.
class Pickling {
 public:
  void put(const c10::IValue& value) {
    if (value.isTensor()) return put_tensor(value.toTensor());
    if (value.isGenericDict()) {
      writer_.begin_dict();
      for (const auto& entry : value.toGenericDict()) {
        put(entry.key());
        put(entry.value());
      }
      return writer_.end_dict();
    }
    if (value.isList()) {
      writer_.begin_list();
      for (const c10::IValue& item : value.toListRef()) put(item);
      return writer_.end_list();
    }
    if (value.isTuple()) {
      writer_.begin_tuple();
      for (const c10::IValue& item : value.toTupleRef().elements()) put(item);
      return writer_.end_tuple();
    }
    if (value.isInt()) return writer_.integer(value.toInt());
    if (value.isDouble()) return writer_.real(value.toDouble());
    if (value.isBool()) return writer_.boolean(value.toBool());
    if (value.isString()) return writer_.text(value.toStringRef());
    writer_.none();
  }

  std::string finish() { return writer_.finish(); }
  // Indexed by key, from 0.
  const std::vector<at::Tensor>& storages() const { return storages_; }

 private:
  void put_tensor(const at::Tensor& tensor) {
    const void* const storage = tensor.storage().unsafeGetStorageImpl();
    const auto key = keys_.emplace(storage, storages_.size());
    if (key.second) storages_.push_back(tensor);
    const PthType& type = *type_of(tensor);
    writer_.tensor({.key = std::to_string(key.first->second),
                    .storage_type = std::string(type.storage),
                    .dtype = std::string(type.dtype),
                    .bytes = tensor.nbytes(),
                    .elements = static_cast<std::uint64_t>(tensor.numel()),
                    .sizes = tensor.sizes().vec(),
                    .strides = tensor.strides().vec()});
  }

  pickle::Writer writer_;
  std::map<const void*, std::size_t> keys_;
  std::vector<at::Tensor> storages_;
};

void write_archive(DurableFile& file, const c10::IValue& value) {
  std::string wrong;
  caffe2::serialize::PyTorchStreamWriter writer([&](const void* bytes, std::size_t size) {
    const auto done = file.append({static_cast<const char*>(bytes), size});
    if (!done) wrong = done.error().reason;
    return done ? size : 0;
  });
  Pickling pickling;
  pickling.put(value);
  const std::string bytes = pickling.finish();
  try {
    std::size_t key = 0;
    for (const at::Tensor& tensor : pickling.storages()) {
      writer.writeRecord(fmt::format("data/{}", key++), tensor.const_data_ptr(), tensor.nbytes());
    }
    writer.writeRecord("data.pkl", bytes.data(), bytes.size());
    writer.writeRecord("byteorder", "little", 6);
    writer.writeEndOfFile();
  } catch (const c10::Error& error) {
    throw FileError(wrong.empty() ? error.what_without_backtrace() : wrong);
  }
}

std::string read_text(caffe2::serialize::PyTorchStreamReader& reader, const std::string& name) {
  const auto [data, size] = reader.getRecord(name);
  return {static_cast<const char*>(data.get()), size};
}

// A record that claims to be larger than its file would be unpacked until memory runs out.
void check_record(caffe2::serialize::PyTorchStreamReader& reader, const std::string& name,
                  std::uint64_t limit, const std::string& path) {
  if (!reader.hasRecord(name)) {
    throw FileError(
        fmt::format("\"{}\": not a torch.save file, or damaged: no record {}", path, name));
  }
  if (const std::uint64_t size = reader.getRecordSize(name); size > limit) {
    throw FileError(
        fmt::format("\"{}\": record {} has {} bytes, the limit is {}", path, name, size, limit));
  }
}

c10::IValue read_archive(const std::string& path, std::uint64_t file_bytes) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  if (reader.hasRecord("constants.pkl")) {
    throw FileError(
        fmt::format("\"{}\": a TorchScript archive: read it with torch::load or "
                    "torch::jit::load",
                    path));
  }
  check_record(reader, "data.pkl", std::min(file_bytes, bounds::pickle_bytes_max), path);
  if (reader.hasRecord("byteorder")) {
    check_record(reader, "byteorder", 16, path);
    if (read_text(reader, "byteorder") != "little") {
      throw FileError(fmt::format("\"{}\": files of big-endian machines are not supported", path));
    }
  }
  const auto pickle = pickle::read_pickle(read_text(reader, "data.pkl"));
  if (!pickle) throw FileError(fmt::format("\"{}\": {}", path, pickle.error().reason));
  // torch.save does not compress, so all storages together are no larger than the file. In a
  // hostile file, each of a thousand records may unpack to that size.
  std::uint64_t left = file_bytes;
  return values_of(*pickle, path, [&](const std::string& key) {
    const std::string name = "data/" + key;
    check_record(reader, name, left, path);
    auto [data, size] = reader.getRecord(name);
    left -= size;
    return std::pair(std::move(data), size);
  });
}

// A value that occurs twice is flattened twice, so forty nested dicts can give 2^40 names. `left`:
// the remaining number of values allowed.
void flatten(const c10::IValue& value, const std::string& name, StateDict& into,
             std::size_t& left) {
  if (left-- == 0) {
    throw FileError(fmt::format("the state dict has more than {} tensors and values",
                                bounds::pickle_values_max));
  }
  const auto join = [&name](const std::string& key) {
    return name.empty() ? key : name + '.' + key;
  };
  if (value.isTensor()) {
    into.tensors[name] = value.toTensor();
  } else if (value.isInt()) {
    into.set(name, value.toInt());
  } else if (value.isDouble()) {
    into.set(name, value.toDouble());
  } else if (value.isBool()) {
    into.texts[name] = value.toBool() ? "true" : "false";
  } else if (value.isString()) {
    into.texts[name] = value.toStringRef();
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      const c10::IValue& key = entry.key();
      if (key.isString()) flatten(entry.value(), join(key.toStringRef()), into, left);
      if (key.isInt()) flatten(entry.value(), join(std::to_string(key.toInt())), into, left);
    }
  } else if (value.isList() || value.isTuple()) {
    const auto items = value.isList() ? value.toListRef() : value.toTupleRef().elements();
    for (std::size_t i = 0; i < items.size(); ++i) {
      flatten(items[i], join(std::to_string(i)), into, left);
    }
  }
}

}  // namespace

void save_pth(const std::string& path, const c10::IValue& value) {
  const c10::IValue plain = Plain(path).of(value);
  auto file = DurableFile::create(path);
  if (!file) throw FileError(file.error().reason);
  write_archive(*file, plain);
  if (const auto committed = file->commit(); !committed) throw FileError(committed.error().reason);
}

void save_pth(const std::string& path, const StateDict& state) {
  GenericDict dict = empty_dict();
  for (const auto& [name, tensor] : state.tensors) dict.insert(name, tensor);
  save_pth(path, dict);
}

c10::IValue load_pth(const std::string& path) {
  std::error_code error;
  const std::uint64_t file_bytes = std::filesystem::file_size(path, error);
  if (error) throw FileError(fmt::format("cannot read \"{}\": {}", path, error.message()));
  try {
    return read_archive(path, file_bytes);
  } catch (const c10::Error& foreign) {
    throw FileError(
        fmt::format("\"{}\": not a torch.save file of PyTorch 1.6 or later, or damaged: {}", path,
                    foreign.what_without_backtrace()));
  }
}

StateDict state_dict_from(const c10::IValue& value) {
  StateDict state;
  std::size_t left = bounds::pickle_values_max;
  flatten(value, "", state, left);
  return state;
}

}  // namespace cpprun
