// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The frames in which a cpprund tells another one what it has to know to lead in its place, and is
// told how much of that the other one has (docs/protocol.md §3, "Between cppruns"). They lie
// between the JSON ones of their link.
//
// A frame is a little-endian u32 (the length of what follows), the mark, a u8 kind, a u64 number, a
// u32 round, a u16 length and the name of the job, and bytes to its end.

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/ids.h"
#include "proto/result.h"

namespace cpprun::link {

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
