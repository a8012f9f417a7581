// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/safetensors_file.h"

#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#ifdef CPPRUN_WITH_ISAL
#include <isa-l/crc.h>
#endif

#include <algorithm>
#include <array>
#include <cerrno>

#include "proto/text.h"
#include "worker/env/io/durable_file.h"
#include "worker/torch/compat/versions.h"
#include "worker/torch/files/bounds.h"
#include "worker/torch/files/safetensors.h"

namespace cpprun {
namespace {

struct Dtype {
  at::ScalarType type;
  std::string_view name;
};
constexpr std::array dtypes = {Dtype{at::kBool, "BOOL"},
                               Dtype{at::kByte, "U8"},
                               Dtype{at::kChar, "I8"},
                               Dtype{at::kShort, "I16"},
                               Dtype{at::kUInt16, "U16"},
                               Dtype{at::kHalf, "F16"},
                               Dtype{at::kBFloat16, "BF16"},
                               Dtype{at::kInt, "I32"},
                               Dtype{at::kUInt32, "U32"},
                               Dtype{at::kFloat, "F32"},
                               Dtype{at::kLong, "I64"},
                               Dtype{at::kUInt64, "U64"},
                               Dtype{at::kDouble, "F64"},
                               Dtype{at::kComplexFloat, "C64"},
                               Dtype{at::kFloat8_e4m3fn, "F8_E4M3"},
                               Dtype{at::kFloat8_e5m2, "F8_E5M2"},
                               Dtype{compat::float8_e8m0fnu<at::ScalarType>(), "F8_E8M0"}};

template <class T>
T or_throw(Result<T> result) {
  if (!result) throw FileError(result.error().reason);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

std::string_view bytes_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

// The CRC-32 of zlib. ISA-L computes the same with the processor's carry-less multiplication, about
// ten times as fast.
std::uint32_t add_to_checksum(std::uint32_t checksum, std::string_view bytes) {
  // An empty tensor has a null address, which zlib takes as a request to start over.
  if (bytes.empty()) return checksum;
#ifdef CPPRUN_WITH_ISAL
  return ::crc32_gzip_refl(checksum, reinterpret_cast<const unsigned char*>(bytes.data()),
                           bytes.size());
#else
  return static_cast<std::uint32_t>(
      ::crc32_z(checksum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
#endif
}

// Memory for a file's tensors. In huge pages, because each page of new memory costs a fault, and
// with small pages these take longer than the copy. The file is read and not mapped: a mapped file
// that another process truncates would end this one with SIGBUS at any later access.
at::Tensor memory_for(std::uint64_t bytes) {
  constexpr std::uint64_t huge_page = std::uint64_t{2} << 20U;
  const at::Tensor memory = at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
  const auto first = reinterpret_cast<std::uintptr_t>(memory.mutable_data_ptr());
  const std::uintptr_t begin = (first + huge_page - 1) / huge_page * huge_page;
  const std::uintptr_t end = (first + bytes) / huge_page * huge_page;
  // It is advice: a kernel without huge pages refuses it, and nothing is lost.
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  return memory;
}

SafetensorsHead head_of(const StateDict& state, const std::string& path) {
  SafetensorsHead head;
  for (const auto& [name, tensor] : state.tensors) {
    const auto* const dtype = std::find_if(dtypes.begin(), dtypes.end(), [&](const Dtype& each) {
      return tensor.defined() && each.type == tensor.scalar_type();
    });
    if (dtype == dtypes.end()) {
      throw FileError(fmt::format(
          "cannot write \"{}\": tensor \"{}\" {}", path, name,
          tensor.defined() ? "has a type that safetensors does not support" : "is undefined"));
    }
    head.tensors.push_back(
        {.name = name, .dtype = std::string(dtype->name), .shape = tensor.sizes().vec()});
  }
  // Wide elements first, like Python's writer: every tensor is then aligned in memory.
  std::stable_sort(head.tensors.begin(), head.tensors.end(), [](const auto& a, const auto& b) {
    return element_bytes(a.dtype) > element_bytes(b.dtype);
  });
  std::uint64_t at = 0;
  for (TensorEntry& entry : head.tensors) {
    entry.begin = at;
    at += state.tensors.at(entry.name).nbytes();
    entry.end = at;
  }
  head.metadata = state.texts;
  head.metadata[std::string(checksum_key)] = "00000000";
  return head;
}

// Closes its descriptor on every return path.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : path_(path) {
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) fail("cannot read");
  }
  ~OpenFile() {
    if (file_ >= 0) ::close(file_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  std::uint64_t size() const {
    struct stat status {};
    if (::fstat(file_, &status) != 0) fail("cannot read");
    return static_cast<std::uint64_t>(status.st_size);
  }

  void read(char* to, std::size_t count) {
    while (count > 0) {
      const ssize_t got = ::read(file_, to, count);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("cannot read");
      if (got == 0) throw FileError(fmt::format("\"{}\": truncated while it was read", path_));
      to += got;
      count -= static_cast<std::size_t>(got);
    }
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw FileError(fmt::format("{} \"{}\": {}", what, path_, errno_text(errno)));
  }

  const std::string& path_;
  int file_ = -1;
};

at::Tensor view_of(const at::Tensor& data, const TensorEntry& entry) {
  const auto* const dtype = std::find_if(dtypes.begin(), dtypes.end(),
                                         [&](const Dtype& d) { return d.name == entry.dtype; });
  if (entry.begin == entry.end) return at::empty(entry.shape, dtype->type);
  at::Tensor bytes = data.narrow(0, static_cast<std::int64_t>(entry.begin),
                                 static_cast<std::int64_t>(entry.end - entry.begin));
  // Other writers need not align tensors.
  if (entry.begin % element_bytes(entry.dtype) != 0) bytes = bytes.clone();
  return bytes.view(dtype->type).view(entry.shape);
}

}  // namespace

SafetensorsBytes to_safetensors(const StateDict& state) {
  SafetensorsHead head = head_of(state, "a state");
  head.metadata.erase(std::string(checksum_key));
  SafetensorsBytes bytes{.head = to_text(head).substr(safetensors_length_bytes)};
  const std::uint64_t size = head.tensors.empty() ? 0 : head.tensors.back().end;
  bytes.data = memory_for(size);
  for (const TensorEntry& entry : head.tensors) {
    view_of(bytes.data, entry).copy_(state.tensors.at(entry.name).detach());
  }
  return bytes;
}

void save_safetensors(const std::string& path, const StateDict& state) {
  const SafetensorsHead head = head_of(state, path);
  std::string text = to_text(head);
  if (text.size() - safetensors_length_bytes > bounds::safetensors_head_bytes_max ||
      head.metadata.size() > bounds::safetensors_texts_max) {
    throw FileError(
        fmt::format("cannot write \"{}\": {} tensors and {} metadata entries need a header of {} "
                    "bytes; the limits are {} bytes and {} metadata entries",
                    path, head.tensors.size(), head.metadata.size(), text.size(),
                    bounds::safetensors_head_bytes_max, bounds::safetensors_texts_max));
  }
  auto file = or_throw(DurableFile::create(path));
  or_throw(file.append(text));
  std::uint32_t checksum = add_to_checksum(0, text);
  for (const TensorEntry& entry : head.tensors) {
    // Conjugation or negation of a view is a flag beside the bytes.
    const at::Tensor values =
        state.tensors.at(entry.name).detach().cpu().resolve_conj().resolve_neg().contiguous();
    checksum = add_to_checksum(checksum, bytes_of(values));
    or_throw(file.append(bytes_of(values)));
  }
  set_checksum(text, checksum);
  or_throw(file.replace(0, text));
  or_throw(file.commit());
}

SafetensorsBytes read_safetensors(const std::string& path) {
  OpenFile file(path);
  const std::uint64_t size = file.size();
  std::string length(std::min<std::size_t>(size, safetensors_length_bytes), '\0');
  file.read(length.data(), length.size());
  SafetensorsBytes bytes;
  bytes.head.resize(or_throw(json_bytes_of(length, size, path)));
  file.read(bytes.head.data(), bytes.head.size());
  const std::uint64_t data_bytes = size - length.size() - bytes.head.size();
  bytes.data = memory_for(data_bytes);
  std::string blank = bytes.head;
  const bool checked = take_checksum(blank).has_value();
  auto* to = static_cast<char*>(bytes.data.mutable_data_ptr());
  // In parts, so that the checksum finds them in the processor's cache.
  for (std::uint64_t at = 0; at < data_bytes;) {
    const auto part = std::min<std::uint64_t>(data_bytes - at, std::uint64_t{1} << 20U);
    file.read(to + at, part);
    if (checked) bytes.checksum = add_to_checksum(bytes.checksum, {to + at, part});
    at += part;
  }
  return bytes;
}

StateDict open_safetensors(const SafetensorsBytes& bytes, const std::string& name) {
  const SafetensorsHead head = or_throw(parse_safetensors(bytes.head, bytes.data.nbytes(), name));
  // The head is checked first, so that a truncated file is reported as truncated.
  std::string blank = bytes.head;
  const auto expected = take_checksum(blank);
  if (!expected && head.metadata.contains(std::string(checksum_key))) {
    throw FileError(fmt::format("\"{}\": damaged: {} \"{}\" is not a checksum", name, checksum_key,
                                head.metadata.at(std::string(checksum_key))));
  }
  if (expected) {
    std::uint64_t length = blank.size();
    std::string text(safetensors_length_bytes, '\0');
    for (char& byte : text) {
      byte = static_cast<char>(length & 0xFFU);
      length >>= 8U;
    }
    const auto found = static_cast<std::uint32_t>(
        ::crc32_combine(add_to_checksum(add_to_checksum(0, text), blank), bytes.checksum,
                        static_cast<z_off_t>(bytes.data.nbytes())));
    if (found != *expected) {
      throw FileError(
          fmt::format("\"{}\": damaged: checksum {:08x}, expected {:08x}", name, found, *expected));
    }
  }
  StateDict state;
  state.texts = head.metadata;
  state.texts.erase(std::string(checksum_key));
  for (const TensorEntry& entry : head.tensors) {
    state.tensors.emplace(entry.name, view_of(bytes.data, entry));
  }
  return state;
}

StateDict load_safetensors(const std::string& path) {
  return open_safetensors(read_safetensors(path), path);
}

}  // namespace cpprun
