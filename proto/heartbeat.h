// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A worker's heartbeat file, as heartbeat_file.h describes it, in this house's words.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/heartbeat_file.h"
#include "proto/result.h"

namespace cpprun {

// The variable that names a worker's file. Without it there is no heartbeat.
inline constexpr std::string_view heartbeat_variable = CPPRUN_HEARTBEAT_VARIABLE;
inline constexpr std::string_view heartbeat_magic = CPPRUN_HEARTBEAT_MAGIC;
inline constexpr std::uint32_t heartbeat_version = CPPRUN_HEARTBEAT_VERSION;

// The same bytes, with what a new one holds.
struct HeartbeatRecord {
  char magic[8] = {};
  std::uint32_t version = heartbeat_version;
  std::int32_t rank = 0;
  std::int32_t pid = 0;
  std::uint32_t checkpoint_seconds = 0;
  std::uint64_t beats = 0;
  std::int64_t last_nanoseconds = 0;
  std::uint64_t step = 0;
  std::uint64_t samples = 0;
  std::uint64_t checkpoint_step = 0;
};
static_assert(sizeof(HeartbeatRecord) == 64 && sizeof(cpprun_heartbeat) == 64);
static_assert(offsetof(HeartbeatRecord, last_nanoseconds) ==
              offsetof(cpprun_heartbeat, last_nanoseconds));
static_assert(offsetof(HeartbeatRecord, checkpoint_step) ==
              offsetof(cpprun_heartbeat, checkpoint_step));

inline Result<HeartbeatRecord> parse_heartbeat(std::string_view bytes) {
  cpprun_heartbeat read{};
  switch (cpprun_heartbeat_parse(bytes.data(), bytes.size(), &read)) {
    case cpprun_heartbeat_ok:
      break;
    case cpprun_heartbeat_bad_size:
      return failure("a heartbeat has 64 bytes, this file has " + std::to_string(bytes.size()));
    case cpprun_heartbeat_bad_magic:
      return failure("no heartbeat: it does not begin with CPPRUNHB");
    case cpprun_heartbeat_bad_version:
      return failure("a heartbeat of version " + std::to_string(read.version) + ", known is " +
                     std::to_string(heartbeat_version));
  }
  return std::bit_cast<HeartbeatRecord>(read);
}

}  // namespace cpprun
