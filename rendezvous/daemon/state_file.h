// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The file in which one job's record lies (--state): a line that says what it is, and behind it the
// record as it was given.
//
//   cpprund-state 1 BYTES CRC32\n…      the CRC-32 of the bytes (ISO-HDLC), eight hex digits

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/result.h"

namespace cpprun {

std::string state_file_of(std::string_view record);

// Fails with a clause that completes "FILE …": it is damaged, and how. `is_later`: it is whole, and
// of a version that a later cpprund writes.
struct NoState {
  std::string clause;
  bool is_later = false;
};
tl::expected<std::string, NoState> record_of_state_file(std::string_view file);

// For what else lies in files of that folder: CRC-32 (ISO-HDLC) of both, one behind the other, and
// the number that stands before that character; both of these are taken away.
std::uint32_t checksum_of(std::string_view bytes, std::string_view more = {});
std::optional<std::uint64_t> take_number(std::string_view& text, char end, int base = 10);
tl::unexpected<NoState> damaged_state(std::string clause);
tl::unexpected<NoState> state_of_version(std::uint64_t said, std::uint64_t known);

}  // namespace cpprun
