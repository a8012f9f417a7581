// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The restart rules of a job. One value, the same on every node: the command line sets it, Join
// carries it, the coordinator applies it (rendezvous/job/restart_policy), and cpprunctl simulates
// it on a history (`cpprunctl policy simulate`).

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"

namespace cpprun {

// `hang=1` of --max-restarts: failures of that cause have a restart budget of their own.
struct CauseBudget {
  std::string cause;            // an id of docs/failures.md, or the name of a group of them
  std::optional<int> max = {};  // empty: unlimited
  friend bool operator==(const CauseBudget&, const CauseBudget&) = default;
};

// --max-host-failures: excludes a host after that many rounds failed first on it within the window.
struct HostLimit {
  int failures = 0;   // 0: never exclude
  Duration window{};  // 0: no window, the whole life of the job
  friend bool operator==(const HostLimit&, const HostLimit&) = default;
};

// --restart-scope: what is started again after a failure of a worker.
enum class RestartScope {
  job,     // all workers of the job, in a new round
  worker,  // that worker, in the running round; for workers that are independent of each other
};

struct RestartRules {
  int max = 0;                            // --max-restarts, for the whole job
  std::vector<CauseBudget> budgets = {};  // no duplicate causes; at most cause_budgets_max
  Duration backoff{};                     // pause before the first restart; 0: none
  Duration window{};                      // after which a restart no longer counts; 0: never
  std::vector<int> final_codes = {};      // --no-restart-codes; signals as negative numbers
  std::vector<int> free_codes = {};       // --free-restart-codes: restarts that use no budget
  int fruitless_max = 0;  // --max-no-progress: restarts in a row without progress; 0: any
  HostLimit host_limit = {};
  RestartScope scope = RestartScope::job;
  bool reconfigures = false;  // --on-failure=reconfigure: workers survive the failure of others
  friend bool operator==(const RestartRules&, const RestartRules&) = default;

  // Whether any failure can lead to another round.
  bool may_restart() const;
  // The longest pause before a restart.
  Duration pause_max() const;
  // The budget for failures of that cause; an id takes precedence over its group. Null: the job's
  // own budget.
  const CauseBudget* budget_for(std::string_view cause) const;
};

inline constexpr std::size_t cause_budgets_max = 8;

// A named group of causes for --max-restarts.
struct CauseGroup {
  std::string_view name;
  std::array<std::string_view, 6> causes;  // ids; unused ones are empty
};
std::span<const CauseGroup> cause_groups();

// As flags, only those that were given: "--max-restarts=3,hang=1 --restart-backoff=2".
std::string to_text(const RestartRules& rules);

}  // namespace cpprun
