// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The head of a safetensors file: which tensors it holds and where their bytes lie. Eight bytes of
// length (little-endian), that many bytes of JSON, then the data without gaps. Python's
// `safetensors` reads what is written here, and the other way round.
//
// Ours carry a CRC-32 of head and data among their metadata, under `checksum_key`; whoever does not
// know it sees one text more.

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
  std::string dtype;  // the format's own names: F32, BF16, I64 …
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // in bytes from the start of the data
  std::uint64_t end = 0;
  friend bool operator==(const TensorEntry&, const TensorEntry&) = default;
};

struct SafetensorsHead {
  std::vector<TensorEntry> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
  friend bool operator==(const SafetensorsHead&, const SafetensorsHead&) = default;
};

inline constexpr std::string_view checksum_key = "cpprun.crc32";
// The length field in front of the JSON.
inline constexpr std::size_t safetensors_length_bytes = 8;

// The size of one element; 0 for a type that is not known here.
std::size_t element_bytes(std::string_view dtype);

// Length field and JSON, padded with blanks so that the data begins at a multiple of eight bytes.
std::string to_text(const SafetensorsHead& head);

// `json` is what follows the length field, `data_bytes` the size of what follows the JSON. Refuses
// entries that overlap, leave gaps, or do not fit their shape; `file` is named in the refusal.
Result<SafetensorsHead> parse_safetensors(std::string_view json, std::uint64_t data_bytes,
                                          const std::string& file);

// The length of the JSON as the first eight bytes say, or why that cannot be.
Result<std::uint64_t> json_bytes_of(std::string_view first_bytes, std::uint64_t file_bytes,
                                    const std::string& file);

// The checksum covers the head with zeros in its own place. `set_checksum` fills that place, if
// `text` has one; `take_checksum` reads it and puts the zeros back.
void set_checksum(std::string& text, std::uint32_t checksum);
std::optional<std::uint32_t> take_checksum(std::string& text);

}  // namespace cpprun
