// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Accounts for the time of a job's nodes (proto/time_use.h). It is given the number of nodes at
// each account whenever that changes, and the outcome of each round. A failure is known only after
// it has happened: time that was booked meanwhile is then moved to the account it belongs to.
//
// All time is booked, and none of it twice. Every node-second is booked where its node was, and is
// moved at most as often as there is a reason to.

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/clock.h"
#include "proto/time_use.h"
#include "rendezvous/job/round.h"
#include "rendezvous/job/round_outcome.h"

namespace cpprun {

class TimeAccounting {
 public:
  using Nodes = std::array<std::size_t, account_count>;

  // The whole content, for keeping it longer than the coordinator lives. In whole microseconds, so
  // that partial bookings add up exactly.
  struct Kept {
    std::optional<NodeDuration> began = {};
    std::optional<NodeDuration> until = {};  // time is booked up to here
    Nodes nodes{};
    NodeTime kept{};  // Account::training and Account::standing_by
    std::vector<LostTime> lost = {{.cause = "start"}};  // all other accounts
    std::size_t current = 0;              // of lost: the entry that the present time belongs to
    std::optional<NodeTime> broken = {};  // since the round broke
    std::size_t nodes_at_break = 0;       // nodes that ran at that time
    NodeDuration round_training{};        // of the last sealed round
    NodeDuration round_starting{};
    std::vector<NodeDuration> unsaved = {};
    bool trains = false;
    friend bool operator==(const Kept&, const Kept&) = default;
  };
  TimeAccounting() = default;
  explicit TimeAccounting(Kept kept) : now_(std::move(kept)) {}
  const Kept& kept() const { return now_; }

  // From now on this many nodes are at each account. The time until now is booked as before.
  void place(TimePoint now, const Nodes& nodes);
  // The nodes of a job that is not over. `waits`: their account while no round runs.
  void place(TimePoint now, const Round& round, Account waits);

  // After recovery: since then the round has had no coordinator. That was not training if the store
  // was lost as well, or if no node kept its seat meanwhile.
  void had_no_coordinator(TimePoint since) { stalled_since_ = since; }
  void kept_a_seat() { has_resumed_ = true; }

  // A round starts. Until its workers use the store, its time counts as starting.
  void sealed(TimePoint now);
  // A worker has used the store of the round.
  void trains() { now_.trains = true; }
  bool training() const { return now_.trains; }
  // The round was asked to end: what follows belongs to a cause that is not known yet.
  void broken(TimePoint now);
  // A node has ended its workers, which had run this long since their last checkpoint; 0 if they do
  // not report that.
  void unsaved(Duration time);

  struct Cause {
    std::string id;
    std::string host = {};
    // How long nodes ran uselessly before the message that ended the round.
    Duration unnoticed{};
    bool failed = true;  // training since the last checkpoint is lost; false if nothing failed
  };
  // No node of the broken round is left, and this was the cause.
  void round_decided(TimePoint now, const Cause& cause);
  void round_decided(TimePoint now, const RoundEnd& round_end, bool has_lost_its_store);
  // Every worker exited with 0, or some have made steps: workers that never used the store have
  // trained all the same.
  void has_worked(TimePoint now);

  // The totals up to now.
  TimeUse told(TimePoint now) const;
  // The violated invariant, if any.
  std::optional<std::string> check() const;

 private:
  void book(TimePoint now);
  LostTime& entry(const std::string& id, const std::string& host);
  NodeDuration take(Account from, NodeDuration most);

  Kept now_;
  std::optional<TimePoint> stalled_since_;
  bool has_resumed_ = false;
};

}  // namespace cpprun
