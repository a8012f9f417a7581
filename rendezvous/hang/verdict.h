// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Why a job hangs, from the evidence of all its ranks: a pure function.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/rank.h"
#include "rendezvous/hang/evidence.h"

namespace cpprun::hang {

struct Verdict {
  enum class Kind {
    stopped,         // a rank is stopped
    disk,            // a rank is in uninterruptible sleep
    missing,         // a rank never reached a collective that others wait in
    mismatch,        // ranks of a group are in different collectives, or differ in shapes
    opposite_order,  // ranks wait for each other in different process groups
    exited,          // a rank has exited, and others wait for it
    odd_one_out,     // the smallest cluster, where flight records do not tell
    all_alike,       // all ranks wait in the same collective (network or device), or do the same
    unknown,         // nothing could be read, or the ranks are in too many different states
  };
  Kind kind = Kind::unknown;
  // Its parts are separated by "; ": "rank 7 never reached all_reduce number 12 of default_pg,
  // where 31 ranks wait; rank 7 is busy in fetch_next_shard (data.py:12)".
  std::string sentence = {};
  std::optional<Rank> rank = {};  // the culprit, or the first of several; none: not known
  friend bool operator==(const Verdict&, const Verdict&) = default;
};
std::string_view name_of(Verdict::Kind kind);  // "missing", for JSON
// What to do next, as an imperative. By name: empty if the kind is unknown, as from a newer cpprun.
std::string_view hint_of(Verdict::Kind kind);
std::string_view hint_of(std::string_view kind_name);
// The parts of a sentence, without the "; " between them. One in parentheses does not separate.
std::vector<std::string_view> parts_of(std::string_view sentence);

// `world_size`: ranks without any evidence count as unknown.
Verdict verdict_of(const Evidence& evidence, int world_size);

}  // namespace cpprun::hang
