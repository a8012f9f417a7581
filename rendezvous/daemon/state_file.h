// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The two kinds of file of --state: the record of a job, and the log of a round's store.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/ids.h"
#include "proto/result.h"

namespace cpprun {

// The file in which one job's record lies (--state): a line that says what it is, and behind it the
// record as it was given.
//
//   cpprund-state 1 BYTES CRC32\n…      the CRC-32 of the bytes (ISO-HDLC), eight hex digits
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

// The file in which the log of one round's store lies (--state): a line that says what it is, and
// behind it chunks as they were handed over.
//
//   cpprund-log 1 ROUND SYNCED BOOT\n   SYNCED: 1 where each chunk was on the disk before anybody
//                                       heard of it, else 0; BOOT: of which life of the machine
//   u8 kind, u32 bytes, u32 CRC-32 (ISO-HDLC, of kind and bytes), bytes …       little-endian
//
// What is cut off at the end was not handed over in full, or not written; everything before it
// counts. Whether anything may be missing there is said by the last chunk: who writes ends each
// log with one of kind `end`, unless it was ended itself.

enum class LogChunk : std::uint8_t {
  bytes = 1,  // of a StoreLog
  whole = 2,  // somebody could go on from here
  end = 3,    // nothing was handed over after this
  again = 4,  // somebody goes on with it
};

std::string log_file_head(RoundNumber round, bool is_synced, std::string_view boot);
std::string log_chunk(LogChunk kind, std::string_view bytes);

struct LogFile {
  RoundNumber round{};
  bool is_synced = false;
  std::string boot = {};
  bool is_whole = false;   // a log that somebody can go on with, and not the half of an image
  bool has_end = false;    // nothing that was handed over is missing
  std::string bytes;       // of all chunks
  std::uint64_t size = 0;  // bytes of the file that count: what stands behind them is cut off
};
// Fails with a clause that completes "FILE …", as record_of_state_file() does: where it is damaged
// in the middle, it says at which byte, and how many lie behind it.
tl::expected<LogFile, NoState> read_log_file(std::string_view file);

}  // namespace cpprun
