// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Decides whether another attempt follows a failure (RestartPolicy), from the restarts that the job
// has used (RestartState).

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/restart_rules.h"

namespace cpprun {

// The restarts that a job has used: everything that the next decision depends on. It must be saved
// if a job is ended from outside (a scheduler's requeue) and resumes later.
struct RestartState {
  using Moments = std::deque<TimePoint>;  // earliest first

  int restarts_used = 0;  // over the job's whole life, including free ones
  // Restarts that still count, by the cause whose budget they used; "" is the budget of the whole
  // job.
  std::map<std::string, Moments, std::less<>> spent;
  link::Reached farthest;  // of all rounds
  int fruitless = 0;       // consecutive restarts without progress
  std::map<std::string, Moments, std::less<>> host_failures;

  friend bool operator==(const RestartState&, const RestartState&) = default;
};

// Whether another attempt follows a failure, and when (proto/restart_rules.h):
//
//   --max-restarts=N,CAUSE=M  restarts of the whole job; failures of a named cause have a budget of
//                             their own, which may be unlimited
//   --restart-window          older restarts no longer count: the budgets refill
//   --restart-backoff         pause before a restart. It doubles with each restart that still
//   counts,
//                             up to bounds::backoff_max (or the pause itself, if that is longer)
//   --no-restart-codes        exit codes and signals that no restart can fix
//   --free-restart-codes      exit codes and signals that are not the job's fault: such a restart
//   is
//                             free
//   --max-no-progress         limit of consecutive restarts without progress
//   --max-host-failures       a host on which that many rounds failed first is excluded
//
// A lost node is a change of membership and uses no restart, unless node_lost or its group has a
// budget.
//
// With a pause, a window or an unlimited budget, a job could fail forever. In that case the job
// ends when one rank dies within a second of its start three times in a row. Otherwise the budget
// alone decides, as with torchrun.
class RestartPolicy {
 public:
  struct Verdict {
    bool restart = false;
    Duration pause{};     // before the next attempt
    std::string reason;   // a clause: why not, or which restart it is
    bool counts = false;  // a real restart, not only a change of membership
    // The host that has failed too often; nothing if there is none, or no limit is set.
    std::optional<std::string> failing_host = {};
    friend bool operator==(const Verdict&, const Verdict&) = default;
  };

  // An attempt failed with `root`, `life` after it was sealed.
  struct End {
    link::Failure root;
    Duration life{};
    bool lost = false;           // the root is a lost node
    link::Reached reached = {};  // as reported by its workers' heartbeats
  };

  // `before`: the restarts already used, if the job was ended and is started again.
  explicit RestartPolicy(RestartRules rules, RestartState before = {})
      : rules_(std::move(rules)), state_(std::move(before)) {}

  const RestartRules& rules() const { return rules_; }
  const RestartState& state() const { return state_; }
  // Takes the restart from its budget if there is one.
  Verdict judge(TimePoint now, const End& end);
  // TORCHELASTIC_RESTART_COUNT: restarts over the job's whole life.
  int restarts_used() const { return state_.restarts_used; }
  // What is left at `now`: of the whole job's budget, and of a cause's; nothing: unlimited.
  int restarts_left(TimePoint now) const;
  std::optional<int> restarts_left(TimePoint now, const CauseBudget& budget) const;

 private:
  Verdict decide(TimePoint now, const End& end, bool is_looping);
  Verdict spend(TimePoint now, const std::string& budget_name, std::string reason);
  bool is_change(const End& end) const;
  bool loops(const End& end);
  bool can_fail_for_ever() const;
  void note_progress(const End& end);
  std::string fruitless_text() const;
  std::optional<std::string> failing_host(TimePoint now, const End& end);
  int spent(TimePoint now, const std::string& budget_name) const;
  Duration next_pause() const;

  RestartRules rules_;
  RestartState state_;
  // Deaths soon after the start, in a row: of the last rank that died so, or with
  // RestartScope::worker, of each.
  std::map<Rank, int> early_deaths_;
};

}  // namespace cpprun
