// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The file in which one job's record lies (--state): a line that says what it is, and behind it the
// record as it was given.
//
//   cpprund-state 1 BYTES CRC32\n…      the CRC-32 of the bytes (ISO-HDLC), eight hex digits

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

}  // namespace cpprun
