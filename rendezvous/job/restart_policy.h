// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Whether there is another attempt after a failure (RestartPolicy), and what a job has used of its
// restarts (RestartState).

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/restart_rules.h"

namespace cpprun {

// What a job has used of its restarts: all that the next attempt is judged by, and all that has to
// be kept where a job is ended from outside (a scheduler's requeue) and goes on later.
struct RestartState {
  using Moments = std::deque<TimePoint>;  // the earliest first

  int restarts_used = 0;  // over the job's whole life, those that cost nothing too
  // Restarts that still count, by the cause their purse is for; "" is the whole job's.
  std::map<std::string, Moments, std::less<>> spent;
  link::Reached farthest;  // of all rounds
  int fruitless = 0;       // restarts in a row that came no further
  std::map<std::string, Moments, std::less<>> host_failures;

  friend bool operator==(const RestartState&, const RestartState&) = default;
};

// Whether there is another attempt after a failure, and when (proto/restart_rules.h):
//
//   --max-restarts=N,CAUSE=M  so many restarts of the whole job; failures of a cause that is named
//                             take theirs from a purse of their own, which may have no bottom
//   --restart-window          restarts longer ago than this no longer count: the purses refill
//   --restart-backoff         the pause before a restart, doubled with each that still counts, to
//                             at most bounds::backoff_max (or the pause itself, where it is longer)
//   --no-restart-codes        ends that no restart will cure
//   --free-restart-codes      ends that are not the job's fault: such a restart costs nothing
//   --max-no-progress         no more than so many restarts in a row that came no further
//   --max-host-failures       a host on which so many rounds failed first is to be left out
//
// A node that is lost is a change of membership and costs nothing, unless node_lost or its group
// has a purse.
//
// With a pause, a window or a purse without a bottom a job could go on failing for ever, so there a
// rank that dies within a second of its start three times in a row ends it. Without them the budget
// alone decides, as with torchrun.
class RestartPolicy {
 public:
  struct Verdict {
    bool restart = false;
    Duration pause{};     // before the next attempt
    std::string reason;   // a clause: why not, or which restart it is
    bool counts = false;  // it is a restart, and not only a change of membership
    // The host that failed once too often; nothing: none did, or that is not looked at.
    std::optional<std::string> failing_host = {};
    friend bool operator==(const Verdict&, const Verdict&) = default;
  };

  // An attempt has failed with `root`, so long after it was sealed.
  struct End {
    link::Failure root;
    Duration life{};
    bool lost = false;           // the root is a node that was lost
    link::Reached reached = {};  // by the beats of its workers
  };

  // `before`: what the job has used already, where it was ended and is started again.
  explicit RestartPolicy(RestartRules rules, RestartState before = {})
      : rules_(std::move(rules)), state_(std::move(before)) {}

  const RestartRules& rules() const { return rules_; }
  const RestartState& state() const { return state_; }
  // Takes the restart from its purse if there is one.
  Verdict judge(TimePoint now, const End& end);
  // TORCHELASTIC_RESTART_COUNT: restarts over the job's whole life.
  int restarts_used() const { return state_.restarts_used; }
  // What is left then: of the whole job's budget, and of a purse; nothing: it has no bottom.
  int restarts_left(TimePoint now) const;
  std::optional<int> restarts_left(TimePoint now, const CauseBudget& purse) const;

 private:
  Verdict decide(TimePoint now, const End& end, bool is_looping);
  Verdict spend(TimePoint now, const std::string& purse, std::string reason);
  bool is_change(const End& end) const;
  bool loops(const End& end);
  bool can_fail_for_ever() const;
  void note_progress(const End& end);
  std::string fruitless_text() const;
  std::optional<std::string> failing_host(TimePoint now, const End& end);
  int spent(TimePoint now, const std::string& purse) const;
  Duration next_pause() const;

  RestartRules rules_;
  RestartState state_;
  std::optional<Rank> early_rank_;  // who died early last time
  int early_deaths_ = 0;            // of that rank, in a row
};

}  // namespace cpprun
