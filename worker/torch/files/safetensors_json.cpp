// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "proto/text.h"
#include "worker/torch/files/bounds.h"
#include "worker/torch/files/safetensors.h"

namespace cpprun {
namespace {

using Json = nlohmann::json;

constexpr std::size_t checksum_digits = 8;

struct Dtype {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array dtypes = {
    Dtype{"BOOL", 1},    Dtype{"U8", 1},     Dtype{"I8", 1},  Dtype{"I16", 2}, Dtype{"U16", 2},
    Dtype{"F16", 2},     Dtype{"BF16", 2},   Dtype{"I32", 4}, Dtype{"U32", 4}, Dtype{"F32", 4},
    Dtype{"I64", 8},     Dtype{"U64", 8},    Dtype{"F64", 8}, Dtype{"C64", 8}, Dtype{"F8_E4M3", 1},
    Dtype{"F8_E5M2", 1}, Dtype{"F8_E8M0", 1}};

std::string little_endian(std::uint64_t value) {
  std::string bytes(safetensors_length_bytes, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(value & 0xFFU);
    value >>= 8U;
  }
  return bytes;
}

// Absent if the shape needs more bytes than any file has, or, with a dimension of zero, more
// elements along the others than LibTorch can count.
std::optional<std::uint64_t> bytes_of(const TensorEntry& entry) {
  std::int64_t bytes = static_cast<std::int64_t>(element_bytes(entry.dtype));
  bool empty = false;
  for (const std::int64_t size : entry.shape) {
    if (size == 0) empty = true;
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes)) return {};
  }
  return empty ? 0 : static_cast<std::uint64_t>(bytes);
}

// Reads the head while it is parsed and keeps only the result: a full JSON tree of a hostile head
// would take forty times its size. An error ends the parsing.
class HeadReader : public nlohmann::json_sax<Json> {
 public:
  explicit HeadReader(SafetensorsHead& head) : head_(head) {}

  // The reason it stopped; empty if the JSON syntax is invalid.
  const std::string& wrong() const { return wrong_; }

  bool null() override { return unexpected(depth_); }
  bool boolean(bool) override { return unexpected(depth_); }
  bool number_integer(number_integer_t) override { return unexpected(depth_); }
  bool number_float(number_float_t, const string_t&) override { return unexpected(depth_); }
  bool binary(binary_t&) override { return unexpected(depth_); }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (numbers_ == nullptr) return unexpected(depth_);
    if (value > INT64_MAX) return refuse_numbers();
    if (numbers_->size() == bounds::safetensors_dimensions_max) return fail(dimensions_exceeded);
    numbers_->push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (depth_ == entry_depth && in_metadata_) {
      if (head_.metadata.size() == bounds::safetensors_texts_max)
        return stop("too many metadata entries");
      if (head_.metadata.emplace(field_, value).second) return true;
      return stop(fmt::format("metadata entry \"{}\" occurs twice", field_));
    }
    if (depth_ == entry_depth && field_ == "dtype") {
      entry_.dtype = value;
      if (element_bytes(value) != 0) return true;
      return fail(fmt::format("has the unknown type {}", value.substr(0, name_shown_bytes)));
    }
    return unexpected(depth_);
  }

  bool start_object(std::size_t) override {
    const int outside = depth_++;
    if (outside > 1) return unexpected(outside);
    entry_ = {.name = name_};
    seen_ = {};
    offsets_.clear();
    return true;
  }

  bool key(string_t& name) override {
    if (depth_ == 1) {
      name_ = name;
      in_metadata_ = name == "__metadata__";
      return !in_metadata_ || !std::exchange(had_metadata_, true) ||
             stop("__metadata__ occurs twice");
    }
    if (depth_ != entry_depth) return true;
    field_ = name;
    if (in_metadata_) return true;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (name == fields[i] && std::exchange(seen_[i], true)) {
        return fail(fmt::format("has more than one {}", name));
      }
    }
    return true;
  }

  bool end_object() override {
    --depth_;
    if (depth_ != 1 || in_metadata_) return true;
    return finish_entry();
  }

  bool start_array(std::size_t) override {
    const int outside = depth_++;
    const bool shape = field_ == "shape";
    if (outside != entry_depth || in_metadata_ || !(shape || field_ == "data_offsets")) {
      return unexpected(outside);
    }
    numbers_ = shape ? &entry_.shape : &offsets_;
    return true;
  }

  bool end_array() override {
    --depth_;
    numbers_ = nullptr;
    return true;
  }

 private:
  static constexpr int entry_depth = 2;  // inside {"name": {
  static constexpr std::size_t name_shown_bytes = 64;
  static constexpr const char* dimensions_exceeded = "has too many dimensions";
  static constexpr std::array<std::string_view, 3> fields = {"dtype", "shape", "data_offsets"};

  bool stop(std::string why) {
    wrong_ = std::move(why);
    return false;
  }
  bool fail(const std::string& what) {
    return stop(fmt::format("tensor \"{}\" {}", name_.substr(0, name_shown_bytes), what));
  }
  bool refuse_numbers() {
    return field_ == "shape" ? fail("has no shape of whole numbers")
                             : fail("has no pair of data_offsets");
  }
  // Handles a value of the wrong kind at this `depth`. Fields that are unknown to the format, or of
  // a future version, may have any value.
  bool unexpected(int depth) {
    if (depth == 0) return false;
    if (in_metadata_) return stop("__metadata__ is not an object of strings");
    if (depth == 1) return fail("is not an object");
    if (numbers_ != nullptr) return refuse_numbers();
    if (depth != entry_depth) return true;
    if (field_ == "dtype") return fail("has no dtype");
    return field_ == "shape" || field_ == "data_offsets" ? refuse_numbers() : true;
  }

  bool finish_entry() {
    if (!seen_[0]) return fail("has no dtype");
    if (!seen_[1]) return fail("has no shape of whole numbers");
    if (offsets_.size() != 2) return fail("has no pair of data_offsets");
    entry_.begin = static_cast<std::uint64_t>(offsets_[0]);
    entry_.end = static_cast<std::uint64_t>(offsets_[1]);
    const auto bytes = bytes_of(entry_);
    if (entry_.end < entry_.begin || !bytes || entry_.end - entry_.begin != *bytes) {
      return fail(fmt::format("has data_offsets [{}, {}] that do not match its shape", entry_.begin,
                              entry_.end));
    }
    head_.tensors.push_back(std::move(entry_));
    return true;
  }

  SafetensorsHead& head_;
  std::string wrong_;
  int depth_ = 0;  // of objects and lists
  bool in_metadata_ = false;
  bool had_metadata_ = false;
  std::string name_;
  std::string field_;
  TensorEntry entry_;
  std::array<bool, fields.size()> seen_{};
  std::vector<std::int64_t> offsets_;
  std::vector<std::int64_t>* numbers_ = nullptr;  // the list that is being read
};

// Empty if all names are unique.
std::string check_names(const std::vector<TensorEntry>& tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorEntry& entry : tensors) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  return twice == names.end() ? "" : fmt::format("tensor \"{}\" occurs twice", *twice);
}

// Checks that the tensors cover the data to its last byte, without gaps or overlaps.
std::string check_cover(const std::vector<TensorEntry>& tensors, std::uint64_t data_bytes) {
  std::uint64_t at = 0;
  for (const TensorEntry& entry : tensors) {
    if (entry.begin != at) {
      return fmt::format("tensor \"{}\" begins at byte {} of the data, expected {}", entry.name,
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
    return failure(fmt::format("\"{}\": not a safetensors file: {} bytes, a header has at least {}",
                               file, file_bytes, safetensors_length_bytes));
  }
  std::uint64_t length = 0;
  for (std::size_t i = safetensors_length_bytes; i-- > 0;) {
    length = (length << 8U) | static_cast<unsigned char>(first_bytes[i]);
  }
  if (length > bounds::safetensors_head_bytes_max) {
    return failure(fmt::format(
        "\"{}\": not a safetensors file: header length {} exceeds the limit of {} bytes", file,
        length, bounds::safetensors_head_bytes_max));
  }
  if (length > file_bytes - safetensors_length_bytes) {
    return failure(
        fmt::format("\"{}\": truncated: the header has {} bytes, but the file ends at offset {}",
                    file, length, file_bytes));
  }
  return length;
}

Result<SafetensorsHead> parse_safetensors(std::string_view json, std::uint64_t data_bytes,
                                          const std::string& file) {
  const auto refuse = [&file](const std::string& why) {
    return failure(fmt::format("\"{}\": not a complete safetensors file: {}", file, why));
  };
  SafetensorsHead head;
  // The shortest possible entry. Memory is reserved once, because growing takes twice as much.
  constexpr std::string_view shortest = R"("":{"dtype":"U8","shape":[],"data_offsets":[0,0]},)";
  const auto braces = static_cast<std::size_t>(std::count(json.begin(), json.end(), '{'));
  head.tensors.reserve(std::min(braces, json.size() / shortest.size() + 1));
  HeadReader reader(head);
  if (!Json::sax_parse(json, &reader)) {
    return refuse(reader.wrong().empty() ? "the header at offset 8 is not a JSON object"
                                         : reader.wrong());
  }
  if (const std::string wrong = check_names(head.tensors); !wrong.empty()) return refuse(wrong);
  // An empty tensor comes before a tensor that begins at the same byte.
  std::sort(head.tensors.begin(), head.tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
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
  const auto checksum =
      hex_number<std::uint32_t>(std::string_view(text).substr(place, checksum_digits));
  if (!checksum) return std::nullopt;
  text.replace(place, checksum_digits, checksum_digits, '0');
  return checksum;
}

}  // namespace cpprun
