// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The header of a safetensors file: its tensors and the offsets of their bytes. The file is a
// length of eight bytes (little-endian), a JSON text of that length, then the data without gaps.
// Compatible with Python's `safetensors` in both directions.
//
// Files written here have a CRC-32 of header and data in their metadata, under `checksum_key`.
// Other readers see it as one more metadata text.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/result.h"

namespace cpprun {

struct TensorEntry {
  std::string name;
  std::string dtype;  // the format's names: F32, BF16, I64 …
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // in bytes from the start of the data
  std::uint64_t end = 0;
  friend bool operator==(const TensorEntry&, const TensorEntry&) = default;
};

struct SafetensorsHead {
  std::vector<TensorEntry> tensors;  // sorted by the offset of their bytes
  std::map<std::string, std::string> metadata;
  friend bool operator==(const SafetensorsHead&, const SafetensorsHead&) = default;
};

inline constexpr std::string_view checksum_key = "cpprun.crc32";
// The length field in front of the JSON.
inline constexpr std::size_t safetensors_length_bytes = 8;

// The size of one element in bytes; 0 for an unknown type.
std::size_t element_bytes(std::string_view dtype);

// The length field and the JSON, padded with blanks so that the data begins at a multiple of eight
// bytes.
std::string to_text(const SafetensorsHead& head);

// `json`: the text after the length field; `data_bytes`: the size of the data after it. Rejects
// entries that overlap, leave gaps or do not fit their shape; the error names `file`.
Result<SafetensorsHead> parse_safetensors(std::string_view json, std::uint64_t data_bytes,
                                          const std::string& file);

// The length of the JSON from the first eight bytes, or an error if it is impossible.
Result<std::uint64_t> json_bytes_of(std::string_view first_bytes, std::uint64_t file_bytes,
                                    const std::string& file);

// The checksum is computed with zeros in its own field. `set_checksum` fills the field if `text`
// has one; `take_checksum` reads it and restores the zeros.
void set_checksum(std::string& text, std::uint32_t checksum);
std::optional<std::uint32_t> take_checksum(std::string& text);

}  // namespace cpprun
