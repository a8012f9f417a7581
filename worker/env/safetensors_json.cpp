#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "proto/bounds.h"
#include "worker/env/safetensors.h"

namespace cpprun {
namespace {

using Json = nlohmann::json;

constexpr std::size_t checksum_digits = 8;

struct Dtype {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array dtypes = {Dtype{"BOOL", 1}, Dtype{"U8", 1},  Dtype{"I8", 1},   Dtype{"I16", 2},
                               Dtype{"U16", 2},  Dtype{"F16", 2}, Dtype{"BF16", 2}, Dtype{"I32", 4},
                               Dtype{"U32", 4},  Dtype{"F32", 4}, Dtype{"I64", 8},  Dtype{"U64", 8},
                               Dtype{"F64", 8},  Dtype{"C64", 8}};

std::string little_endian(std::uint64_t value) {
  std::string bytes(safetensors_length_bytes, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(value & 0xFFU);
    value >>= 8U;
  }
  return bytes;
}

// Absent if the shape asks for more bytes than any file has.
std::optional<std::uint64_t> bytes_of(const TensorEntry& entry) {
  std::uint64_t bytes = element_bytes(entry.dtype);
  for (const std::int64_t size : entry.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) return {};
  }
  return bytes;
}

bool is_count(const Json& value) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX;
}

// The clause after `tensor "x"`; empty if all is well.
std::string read_entry(const Json& value, TensorEntry& entry) {
  if (!value.is_object()) return "is no object";
  const auto dtype = value.find("dtype");
  const auto shape = value.find("shape");
  const auto offsets = value.find("data_offsets");
  if (dtype == value.end() || !dtype->is_string()) return "has no dtype";
  entry.dtype = dtype->get<std::string>();
  if (element_bytes(entry.dtype) == 0) return fmt::format("has the unknown type {}", entry.dtype);
  if (shape == value.end() || !shape->is_array() ||
      !std::all_of(shape->begin(), shape->end(), is_count)) {
    return "has no shape of whole numbers";
  }
  entry.shape = shape->get<std::vector<std::int64_t>>();
  if (offsets == value.end() || !offsets->is_array() || offsets->size() != 2 ||
      !std::all_of(offsets->begin(), offsets->end(), is_count)) {
    return "has no pair of data_offsets";
  }
  entry.begin = (*offsets)[0].get<std::uint64_t>();
  entry.end = (*offsets)[1].get<std::uint64_t>();
  const auto bytes = bytes_of(entry);
  if (entry.end < entry.begin || !bytes || entry.end - entry.begin != *bytes) {
    return fmt::format("has data_offsets [{}, {}], which do not fit its shape", entry.begin,
                       entry.end);
  }
  return {};
}

// The data is covered by the tensors, without gaps and overlaps, to its last byte.
std::string check_cover(const std::vector<TensorEntry>& tensors, std::uint64_t data_bytes) {
  std::uint64_t at = 0;
  for (const TensorEntry& entry : tensors) {
    if (entry.begin != at) {
      return fmt::format("tensor \"{}\" begins at byte {} of the data, expected was {}", entry.name,
                         entry.begin, at);
    }
    at = entry.end;
  }
  if (at == data_bytes) return {};
  return fmt::format("the tensors need {} bytes of data, the file has {}", at, data_bytes);
}

std::size_t checksum_place(std::string_view text) {
  const std::string before = fmt::format("\"{}\":\"", checksum_key);
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return at;
  const std::size_t place = at + before.size();
  const bool fits = place + checksum_digits < text.size() && text[place + checksum_digits] == '"';
  return fits ? place : std::string_view::npos;
}

}  // namespace

std::size_t element_bytes(std::string_view dtype) {
  const auto* const found = std::find_if(dtypes.begin(), dtypes.end(),
                                         [dtype](const Dtype& each) { return each.name == dtype; });
  return found == dtypes.end() ? 0 : found->bytes;
}

std::string to_text(const SafetensorsHead& head) {
  Json json = Json::object();
  if (!head.metadata.empty()) json["__metadata__"] = head.metadata;
  for (const TensorEntry& entry : head.tensors) {
    json[entry.name] = {
        {"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return little_endian(text.size()) + text;
}

Result<std::uint64_t> json_bytes_of(std::string_view first_bytes, std::uint64_t file_bytes,
                                    const std::string& file) {
  if (first_bytes.size() < safetensors_length_bytes) {
    return failure(fmt::format("\"{}\": {} bytes are no safetensors file, its head alone has {}",
                               file, file_bytes, safetensors_length_bytes));
  }
  std::uint64_t length = 0;
  for (std::size_t i = safetensors_length_bytes; i-- > 0;) {
    length = (length << 8U) | static_cast<unsigned char>(first_bytes[i]);
  }
  if (length > bounds::safetensors_head_bytes_max) {
    return failure(
        fmt::format("\"{}\": no safetensors file, its head would have {} bytes, the "
                    "limit is {}",
                    file, length, bounds::safetensors_head_bytes_max));
  }
  if (length > file_bytes - safetensors_length_bytes) {
    return failure(fmt::format("\"{}\": cut off in its head, which has {} bytes, at offset {}",
                               file, length, file_bytes));
  }
  return length;
}

Result<SafetensorsHead> parse_safetensors(std::string_view json, std::uint64_t data_bytes,
                                          const std::string& file) {
  const auto refuse = [&file](const std::string& why) {
    return failure(fmt::format("\"{}\": not a whole safetensors file: {}", file, why));
  };
  const Json parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return refuse("its head, from offset 8, is no JSON object");
  SafetensorsHead head;
  for (const auto& [name, value] : parsed.items()) {
    if (name == "__metadata__") {
      const bool texts = value.is_object() && std::all_of(value.begin(), value.end(),
                                                          [](auto& v) { return v.is_string(); });
      if (!texts) return refuse("__metadata__ is no object of texts");
      head.metadata = value.get<std::map<std::string, std::string>>();
      continue;
    }
    TensorEntry entry{.name = name};
    if (const std::string wrong = read_entry(value, entry); !wrong.empty()) {
      return refuse(fmt::format("tensor \"{}\" {}", name, wrong));
    }
    head.tensors.push_back(std::move(entry));
  }
  // An empty tensor stands before the one that begins at the same byte.
  std::stable_sort(head.tensors.begin(), head.tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  if (const std::string wrong = check_cover(head.tensors, data_bytes); !wrong.empty()) {
    return refuse(wrong);
  }
  return head;
}

void set_checksum(std::string& text, std::uint32_t checksum) {
  if (const std::size_t place = checksum_place(text); place != std::string::npos) {
    text.replace(place, checksum_digits, fmt::format("{:08x}", checksum));
  }
}

std::optional<std::uint32_t> take_checksum(std::string& text) {
  const std::size_t place = checksum_place(text);
  if (place == std::string::npos) return std::nullopt;
  std::uint32_t checksum = 0;
  const char* const first = text.data() + place;
  const auto [stop, error] = std::from_chars(first, first + checksum_digits, checksum, 16);
  if (error != std::errc() || stop != first + checksum_digits) return std::nullopt;
  text.replace(place, checksum_digits, checksum_digits, '0');
  return checksum;
}

}  // namespace cpprun
