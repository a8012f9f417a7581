// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The binary frames of a link, next to its JSON frames (docs/protocol.md §3): streams between
// workers and their store, and replication between cpprunds.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/rank.h"
#include "proto/result.h"

namespace cpprun::link {

// Stream frames carry the traffic between a node's workers and their job's store. One frame holds
// parts of many streams, so that concurrent requests of a node's ranks travel together.
//
// A frame is a little-endian u32 (the length of the rest), the mark, a u32 round, and records up to
// its end: a u8 kind, a u32 stream and, depending on the kind, a u64 place, or a place, a u32
// length and that many bytes. Places count the bytes that one side has sent in a stream, from 0.

// One connection of a worker to its job's store. Numbered by the agent from 1; not reused within a
// round.
using StreamId = Id<struct StreamTag, std::uint32_t>;

struct StreamRecord {
  enum class Kind : std::uint8_t {
    open = 1,    // a worker has connected
    bytes = 2,   // sent from `place` on
    taken = 3,   // acknowledges everything received before `place`
    closed = 4,  // the sender sends nothing from `place` on, and receives nothing
    unknown = 5  // no such stream here, or no longer; never replied to
  };
  Kind kind = Kind::open;
  StreamId stream;
  std::uint64_t place = 0;
  std::string_view bytes = {};
  friend bool operator==(const StreamRecord&, const StreamRecord&) = default;
};

// Cannot start a JSON text.
inline constexpr char stream_mark = '\x01';

// The size of a record's fields in front of its bytes.
inline constexpr std::size_t stream_record_head = 1 + 4 + 8 + 4;

// The first frame of a link's bytes, without its length; empty if it is incomplete. An error ends
// the link.
Result<std::optional<std::string_view>> first_frame(std::string_view bytes);
inline bool carries_streams(std::string_view frame) {
  return frame.starts_with(stream_mark);
}

class StreamFrameWriter {
 public:
  explicit StreamFrameWriter(RoundNumber round);
  void add(const StreamRecord& record);
  // How many bytes of a bytes record still fit.
  std::size_t room() const;
  bool has_room_for_record() const { return room() > 0; }
  bool empty() const;
  // The frame with its length.
  std::string finish();

 private:
  std::string frame_;
};

// Reads a stream frame. The records refer to it.
class StreamFrameReader {
 public:
  explicit StreamFrameReader(std::string_view frame);
  // Its round. Fails if it is not a stream frame.
  Result<RoundNumber> round();
  // The next record; empty after the last.
  Result<std::optional<StreamRecord>> next();

 private:
  std::string_view rest_;
};

// Replication frames: the leading cpprund sends a standby what it needs to take over, and the
// standby acknowledges how much it has (docs/protocol.md §3, "Between cppruns"). They are
// interleaved with the JSON frames of their link.
//
// A frame is a little-endian u32 (the length of the rest), the mark, a u8 kind, a u64 number, a u32
// round, a u16 length and the job's name, and bytes up to its end.

// Cannot start a JSON text, and differs from stream_mark.
inline constexpr char standby_mark = '\x02';

struct StandbyRecord {
  enum class Kind : std::uint8_t {
    // --- from the leader ---
    part = 1,        // of that job's record
    record = 2,      // its last part
    forgotten = 3,   // the job no longer exists
    log_begins = 4,  // start of that round's store log; replaces the old one when complete
    log = 5,         // the next bytes of it
    log_whole = 6,   // the log is complete and usable
    log_ends = 7,    // no usable store
    caught_up = 8,   // the initial state is complete; what follows are changes
    // --- from the standby ---
    has = 9,    // everything up to that number
    renew = 10  // its copy of that job's store is unusable
  };
  Kind kind = Kind::has;
  // Numbered by the leader from 1, incremented with each frame.
  std::uint64_t number = 0;
  RoundNumber round{};
  std::string_view job = {};
  std::string_view bytes = {};
  friend bool operator==(const StandbyRecord&, const StandbyRecord&) = default;
};

// The bytes that fit into one frame for that job.
std::size_t standby_frame_room(std::string_view job);
std::string standby_frame(const StandbyRecord& record);
// Decodes a frame without its length. The views refer to it. An error ends the link.
Result<StandbyRecord> read_standby_frame(std::string_view frame);
inline bool is_standby_frame(std::string_view frame) {
  return frame.starts_with(standby_mark);
}

}  // namespace cpprun::link
