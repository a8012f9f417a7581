// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The binary frames of a link, beside the JSON ones (docs/protocol.md §3): the streams of workers
// to their store, and what one cpprund replicates to another.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/ids.h"
#include "proto/result.h"

namespace cpprun::link {

// The frames of a link that carry what a node's workers and their job's store say to each other,
// beside the JSON ones (docs/protocol.md §3). One frame holds parts of many conversations, so that
// what a node's ranks ask at the same time travels together.
//
// A frame is a little-endian u32 (the length of what follows), the mark, a u32 round, and records
// to its end: a u8 kind, a u32 stream and, where the kind has them, a u64 place, or a place, a u32
// length and that many bytes. Places count the bytes that one side has said in a stream, from 0.

// One connection of a worker to its job's store. Numbered by its agent from 1 on, never again in a
// round.
using StreamId = Id<struct StreamTag, std::uint32_t>;

struct StreamRecord {
  enum class Kind : std::uint8_t {
    open = 1,    // a worker has connected
    bytes = 2,   // said from `place` on
    taken = 3,   // of what was said to me, all before `place`
    closed = 4,  // I say nothing from `place` on, and take nothing
    unknown = 5  // there is no such stream here, or no more; never answered
  };
  Kind kind = Kind::open;
  StreamId stream;
  std::uint64_t place = 0;
  std::string_view bytes = {};
  friend bool operator==(const StreamRecord&, const StreamRecord&) = default;
};

// Not the first byte of any JSON.
inline constexpr char stream_mark = '\x01';

// What lies before the bytes of such a record.
inline constexpr std::size_t stream_record_head = 1 + 4 + 8 + 4;

// The first frame of a link's bytes, without its length; nothing when it has not arrived in full.
// An error ends the link.
Result<std::optional<std::string_view>> first_frame(std::string_view bytes);
inline bool carries_streams(std::string_view frame) {
  return frame.starts_with(stream_mark);
}

class StreamFrameWriter {
 public:
  explicit StreamFrameWriter(RoundNumber round);
  void add(const StreamRecord& record);
  // How many bytes of a record of bytes still fit.
  std::size_t room() const;
  bool has_room_for_record() const { return room() > 0; }
  bool empty() const;
  // The frame, its length in front.
  std::string finish();

 private:
  std::string frame_;
};

// Reads a frame of that kind. The records point into it.
class StreamFrameReader {
 public:
  explicit StreamFrameReader(std::string_view frame);
  // The round it is of. An error: it is none of these frames.
  Result<RoundNumber> round();
  // The next record, and nothing behind the last.
  Result<std::optional<StreamRecord>> next();

 private:
  std::string_view rest_;
};

// The frames in which a cpprund tells another one what it has to know to lead in its place, and is
// told how much of that the other one has (docs/protocol.md §3, "Between cppruns"). They lie
// between the JSON ones of their link.
//
// A frame is a little-endian u32 (the length of what follows), the mark, a u8 kind, a u64 number, a
// u32 round, a u16 length and the name of the job, and bytes to its end.

// Not the first byte of any JSON, and not the one of streams.
inline constexpr char standby_mark = '\x02';

struct StandbyRecord {
  enum class Kind : std::uint8_t {
    // --- from the one that leads ---
    part = 1,        // of the record of that job
    record = 2,      // the last part of it
    forgotten = 3,   // there is no such job any more
    log_begins = 4,  // of the store of that round; what there was of it is over when this is whole
    log = 5,         // the next bytes of it
    log_whole = 6,   // it can be gone on with
    log_ends = 7,    // there is no store to go on with
    caught_up = 8,   // that is all there is: from here on it is told what happens
    // --- from the one that stands by ---
    has = 9,    // everything up to that number
    renew = 10  // what it had of the store of that job leads nowhere
  };
  Kind kind = Kind::has;
  // Of the one that leads, from 1 on, in each frame one more.
  std::uint64_t number = 0;
  RoundNumber round{};
  std::string_view job = {};
  std::string_view bytes = {};
  friend bool operator==(const StandbyRecord&, const StandbyRecord&) = default;
};

// How many bytes one of that job takes.
std::size_t standby_frame_room(std::string_view job);
std::string standby_frame(const StandbyRecord& record);
// Of a frame without its length. The views point into it. An error ends the link.
Result<StandbyRecord> read_standby_frame(std::string_view frame);
inline bool is_standby_frame(std::string_view frame) {
  return frame.starts_with(standby_mark);
}

}  // namespace cpprun::link
