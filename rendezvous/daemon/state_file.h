// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The file formats in the --state directory: the record of a job, and the log of a round's store.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/rank.h"
#include "proto/result.h"

namespace cpprun {

// The file with the record of one job: a header line, followed by the record itself.
//
//   cpprund-state 1 BYTES CRC32\n…      CRC-32 (ISO-HDLC) of the record, in eight hex digits
std::string state_file_of(std::string_view record);

// `clause` completes "FILE …" and says how the file is damaged. `is_later`: the file is intact, but
// a later version of cpprund wrote it.
struct NoState {
  std::string clause;
  bool is_later = false;
};
tl::expected<std::string, NoState> record_of_state_file(std::string_view file);

// Helpers shared with the other file formats in that directory. checksum_of() is the CRC-32
// (ISO-HDLC) of the concatenation of both arguments. take_number() parses a number followed by
// `end` and removes both from `text`.
std::uint32_t checksum_of(std::string_view bytes, std::string_view more = {});
std::optional<std::uint64_t> take_number(std::string_view& text, char end, int base = 10);
tl::unexpected<NoState> damaged_state(std::string clause);
tl::unexpected<NoState> state_of_version(std::uint64_t said, std::uint64_t known);

// The file with the log of one round's store: a header line, followed by chunks in the order in
// which they were handed over.
//
//   cpprund-log 1 ROUND SYNCED BOOT\n   SYNCED: 1 if each chunk was on disk before any client
//                                       received its effect, else 0; BOOT: the machine's boot id
//   u8 kind, u32 bytes, u32 CRC-32 (ISO-HDLC, of kind and bytes), bytes …       little-endian
//
// A truncated chunk at the end was not handed over or not written completely; everything before it
// is valid. Only the last chunk tells whether more is missing: the writer ends each log with a
// chunk of kind `end`, unless the writer itself was killed.

enum class LogChunk : std::uint8_t {
  bytes = 1,  // part of a StoreLog
  whole = 2,  // the image is complete: a successor can resume from here
  end = 3,    // nothing was handed over after this
  again = 4,  // a successor resumed the log here
};

std::string log_file_head(RoundNumber round, bool is_synced, std::string_view boot);
std::string log_chunk(LogChunk kind, std::string_view bytes);

struct LogFile {
  RoundNumber round{};
  bool is_synced = false;
  std::string boot = {};
  bool is_whole = false;   // can be resumed; false: it has only a part of an image
  bool has_end = false;    // no chunk that was handed over is missing
  std::string bytes;       // of all chunks, concatenated
  std::uint64_t size = 0;  // length of the valid part of the file; the rest is to be truncated
};
// The error completes "FILE …", as with record_of_state_file(). A damaged last chunk counts as
// truncated. Damage before it is an error, with its offset and the number of bytes from there on.
tl::expected<LogFile, NoState> read_log_file(std::string_view file);

// Whether `bytes` is the record in which a cpprund of an earlier build, with both --etcd and
// --state, identified itself. The jobs in its directory belong to a cluster.
bool is_member_record(std::string_view bytes);

}  // namespace cpprun
