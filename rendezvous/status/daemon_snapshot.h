// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A cpprund as the status page and cpprunctl show it: its role, its leader, its standbys, and what
// puts its jobs at risk. Names are those that users configured. With it, how a member of a cluster
// tracks its leader (LeaderWatch).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"

namespace cpprun {

struct StandbySnapshot {
  std::string name;
  std::string place;  // its address, "10.0.0.1:29400"
  std::string version;
  bool is_in_sync = false;         // has replicated everything that any client was answered
  std::uint64_t bytes_behind = 0;  // replication lag
  friend bool operator==(const StandbySnapshot&, const StandbySnapshot&) = default;
};

// A change of leader.
struct LeaderChange {
  WallTime time{};
  std::string from;  // its name; empty: no known leader before
  std::string from_place;
  std::string to;
  std::string to_place;
  std::uint64_t epoch = 0;
  std::string reason;  // a clause
  // How long there was no leader, as observed by this cpprund; empty: unknown.
  std::optional<Duration> silence = {};
  friend bool operator==(const LeaderChange&, const LeaderChange&) = default;
};

struct DaemonSnapshot {
  std::string name;
  std::string place;
  std::string version;
  bool has_etcd = false;  // it is a member of a cluster; otherwise it is the only cpprund
  bool leads = false;
  std::uint64_t epoch = 0;                     // of the current leader, this cpprund or another
  std::optional<WallTime> since = {};          // when this cpprund learned of that leader
  std::string leader;                          // its name; empty: no known leader
  std::string leader_address;                  // the leader's address
  bool is_in_sync = false;                     // it is a standby and has replicated everything
  std::vector<StandbySnapshot> standbys = {};  // connected to this leader
  std::optional<bool> durable = {};            // a successor would know its jobs; see JobDetails
  bool is_synced = false;    // and state is on disk before any reply is sent (--state-sync)
  std::string trouble = {};  // problem with etcd, as text
  std::size_t changes = 0;   // leader changes since this process started
  std::optional<LeaderChange> last_change = {};
  friend bool operator==(const DaemonSnapshot&, const DaemonSnapshot&) = default;
};

// One line for a log: the new leader, the epoch, the previous leader, the reason and how long there
// was no leader.
std::string leader_changed_text(const LeaderChange& change);

// One sentence with a hint for each problem, existing or caused by the loss of one machine, that
// would end or stall jobs.
std::vector<std::string> warnings_of(const DaemonSnapshot& daemon);

// A clause: what happens to the jobs if this cpprund's machine is lost.
std::string cover_text(const DaemonSnapshot& daemon);

// Tracks which member of a cluster is the leader, as one member sees it: since when, what changed
// last and why, and how long there was no leader in between. Reads no clock; the caller passes the
// time.
class LeaderWatch {
 public:
  // Contact with the leader was lost, or it reported that it lost leadership. Only the first reason
  // counts until a leader is known again.
  void lost(TimePoint now, const std::string& reason);

  struct Leader {
    std::string name;
    std::string place;
    std::uint64_t epoch = 0;
    bool is_won = false;  // this member took over, by election or transfer
  };
  // `leader` is the leader as of `now`. Returns the change, or nullopt if there is none: the leader
  // is the same, or it is the first known leader and `is_won` is false.
  std::optional<LeaderChange> leads(const ClockPair& now, const Leader& leader);

  // Since when no leader has been known.
  std::optional<TimePoint> lost_at() const { return lost_at_; }
  std::optional<WallTime> since() const { return since_; }
  std::size_t changes() const { return changes_; }
  const std::optional<LeaderChange>& last() const { return last_; }

 private:
  std::optional<Leader> leader_;  // last known leader
  std::optional<WallTime> since_;
  std::optional<TimePoint> lost_at_;
  std::string lost_by_;
  std::size_t changes_ = 0;
  std::optional<LeaderChange> last_;
};

}  // namespace cpprun
