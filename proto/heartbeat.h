#pragma once
// What a worker's heartbeat file holds. The worker maps it into memory and writes one line of cache
// per step; whoever watches it reads it like any file. 64 bytes in this machine's byte order:
//
//   offset  bytes  what
//        0      8  the text "CPPRUNHB"
//        8      4  version, 1
//       12      4  rank
//       16      8  process id
//       24      8  beats so far
//       32      8  CLOCK_MONOTONIC of the last one, in nanoseconds; 0 before the first
//       40     24  zeros
//
// The clock is the machine's, so a watcher compares it with its own reading. It is read coarsely:
// to a few milliseconds.

#include <cstdint>
#include <cstring>
#include <string_view>

#include "proto/result.h"

namespace cpprun {

// The variable that names a worker's file. Without it there is no heartbeat.
inline constexpr std::string_view heartbeat_variable = "CPPRUN_HEARTBEAT_FILE";
inline constexpr std::string_view heartbeat_magic = "CPPRUNHB";
inline constexpr std::uint32_t heartbeat_version = 1;

struct HeartbeatRecord {
  char magic[8] = {};
  std::uint32_t version = heartbeat_version;
  std::int32_t rank = 0;
  std::int64_t pid = 0;
  std::uint64_t beats = 0;
  std::int64_t last_nanoseconds = 0;
  char zeros[24] = {};
};
static_assert(sizeof(HeartbeatRecord) == 64);

inline Result<HeartbeatRecord> parse_heartbeat(std::string_view bytes) {
  if (bytes.size() != sizeof(HeartbeatRecord)) {
    return failure("a heartbeat has 64 bytes, this file has " + std::to_string(bytes.size()));
  }
  HeartbeatRecord record;
  std::memcpy(&record, bytes.data(), sizeof(record));
  if (std::string_view(record.magic, sizeof(record.magic)) != heartbeat_magic) {
    return failure("no heartbeat: it does not begin with CPPRUNHB");
  }
  if (record.version != heartbeat_version) {
    return failure("a heartbeat of version " + std::to_string(record.version) + ", known is 1");
  }
  return record;
}

}  // namespace cpprun
