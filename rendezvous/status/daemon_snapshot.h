// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A cpprund as it can be shown to somebody: whether it leads, for whom it stands by, who stands by
// for it, and what would end its jobs. The names are those that people have given.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"

namespace cpprun {

struct StandbySnapshot {
  std::string name;
  std::string place;  // where it is met: "10.0.0.1:29400"
  std::string version;
  bool is_in_sync = false;         // it has everything that anybody was told
  std::uint64_t bytes_behind = 0;  // of what it was told
  friend bool operator==(const StandbySnapshot&, const StandbySnapshot&) = default;
};

// Another cpprund leads than before.
struct LeaderChange {
  WallTime time{};
  std::string from;  // its name; empty: nobody led, as far as is known
  std::string from_place;
  std::string to;
  std::string to_place;
  std::uint64_t epoch = 0;
  std::string reason;  // a clause
  // How long nobody led, as this cpprund has known it; nothing: it cannot tell.
  std::optional<Duration> silence = {};
  friend bool operator==(const LeaderChange&, const LeaderChange&) = default;
};

struct DaemonSnapshot {
  std::string name;
  std::string place;
  std::string version;
  bool has_etcd = false;  // which says who leads; else the lead is only ever handed over
  bool leads = false;
  std::uint64_t epoch = 0;                     // in which it leads, or the one that leads
  std::optional<WallTime> since = {};          // that one has led, as far as this one knows
  std::string leader;                          // empty: nobody leads, as far as is known
  std::string leader_place;                    // where that one is met
  bool is_in_sync = false;                     // it stands by, and has everything
  bool is_left_behind = false;                 // it has handed over, and cannot stand by
  std::vector<StandbySnapshot> standbys = {};  // of this one, where it leads
  std::optional<bool> durable = {};            // the next one would know its jobs; see JobDetails
  bool is_synced = false;                      // and before anybody hears of it (--state-sync)
  std::string trouble = {};                    // with etcd, in words
  std::size_t changes = 0;                     // of the one that leads, since this one began
  std::optional<LeaderChange> last_change = {};
  friend bool operator==(const DaemonSnapshot&, const DaemonSnapshot&) = default;
};

// "b" leads in epoch 7 in the place of "a": its link is lost; nobody led for 0.012 s: for a log.
std::string leader_changed_text(const LeaderChange& change);

// What the loss of one machine, or what is wrong already, would end or hold up: a sentence each,
// with what helps.
std::vector<std::string> warnings_of(const DaemonSnapshot& daemon);

// What follows for its jobs where the machine of that cpprund is lost, in a clause.
std::string cover_text(const DaemonSnapshot& daemon);

}  // namespace cpprun
