// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a job was asked to do about failures. One value, the same on every node of the job: the
// command line makes it, Join carries it, the coordinator obeys it (rendezvous/job/restart_policy),
// and cpprunctl plays it on a history (`cpprunctl policy simulate`).

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"

namespace cpprun {

// `hang=1` of --max-restarts: failures of that cause take their restarts from a purse of their own.
struct CauseBudget {
  std::string cause;            // an id of docs/failures.md, or the name of a group of them
  std::optional<int> max = {};  // nothing: without a limit
  friend bool operator==(const CauseBudget&, const CauseBudget&) = default;
};

// --max-host-failures: a host on which so many rounds failed first within that time is left out.
struct HostLimit {
  int failures = 0;   // 0: nobody is left out
  Duration window{};  // 0: in the whole life of the job
  friend bool operator==(const HostLimit&, const HostLimit&) = default;
};

struct RestartRules {
  int max = 0;                            // --max-restarts: of the whole job
  std::vector<CauseBudget> budgets = {};  // no cause twice; at most cause_budgets_max
  Duration backoff{};                     // before the first of them; 0: none
  Duration window{};                      // after which one no longer counts; 0: never
  std::vector<int> final_codes = {};      // --no-restart-codes; signals as negative numbers
  std::vector<int> free_codes = {};       // --free-restart-codes: a restart that costs nothing
  int fruitless_max = 0;  // --max-no-progress: restarts in a row that came no further; 0: any
  HostLimit host_limit = {};
  friend bool operator==(const RestartRules&, const RestartRules&) = default;

  // Whether any failure at all may be followed by another round.
  bool may_restart() const;
  // The longest pause before a restart.
  Duration pause_max() const;
  // The purse for failures of that cause: the one of its id before that of its group. Null: the
  // whole job's.
  const CauseBudget* budget_for(std::string_view cause) const;
};

inline constexpr std::size_t cause_budgets_max = 8;

// Causes that people think of as one, by a name for --max-restarts.
struct CauseGroup {
  std::string_view name;
  std::array<std::string_view, 6> causes;  // ids; the rest is empty
};
std::span<const CauseGroup> cause_groups();

// As flags, those that were given: "--max-restarts=3,hang=1 --restart-backoff=2".
std::string to_text(const RestartRules& rules);

}  // namespace cpprun
