// SPDX-License-Identifier: BSD-3-Clause
#include "proto/restart_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "proto/bounds.h"

namespace cpprun {

namespace {

constexpr auto groups = std::to_array<CauseGroup>({
    {"hang", {"hung", "no_progress", "peer_silent", "stuck_in_kernel"}},
    {"node", {"node_lost"}},
    {"preempt", {"terminated", "killed"}},
    {"memory",
     {"out_of_memory", "memory_refused", "cuda_out_of_memory", "shared_memory_full",
      "shared_memory_small"}},
    {"gpu", {"gpu_broken", "cuda_fault", "nccl_setup"}},
    {"disk", {"disk_full", "disk_error", "read_only", "stale_mount"}},
    {"network",
     {"network_unreachable", "connection_refused", "name_unknown", "peer_gone", "store_gone"}},
});

bool contains(const CauseGroup& group, std::string_view cause) {
  return !cause.empty() && std::ranges::find(group.causes, cause) != group.causes.end();
}

}  // namespace

std::span<const CauseGroup> cause_groups() {
  return groups;
}

bool RestartRules::may_restart() const {
  const auto allows = [](const CauseBudget& each) { return each.max != 0; };
  return max > 0 || !free_codes.empty() || std::ranges::any_of(budgets, allows);
}

Duration RestartRules::pause_max() const {
  return backoff > Duration{} ? std::max(backoff, Duration{bounds::backoff_max}) : Duration{};
}

const CauseBudget* RestartRules::budget_for(std::string_view cause) const {
  const auto find = [this](std::string_view name) -> const CauseBudget* {
    const auto found = std::ranges::find(budgets, name, &CauseBudget::cause);
    return found == budgets.end() ? nullptr : &*found;
  };
  if (const auto* own = find(cause)) return own;
  for (const CauseGroup& group : groups) {
    if (const auto* shared = contains(group, cause) ? find(group.name) : nullptr) return shared;
  }
  return nullptr;
}

std::string to_text(const RestartRules& rules) {
  std::string text = fmt::format("--max-restarts={}", rules.max);
  for (const CauseBudget& each : rules.budgets) {
    text += fmt::format(",{}={}", each.cause, each.max ? std::to_string(*each.max) : "unlimited");
  }
  const auto tell_time = [&text](const char* flag, Duration time) {
    if (time > Duration{}) text += fmt::format(" --{}={}", flag, in_seconds(time));
  };
  const auto tell_codes = [&text](const char* flag, const std::vector<int>& codes) {
    if (!codes.empty()) text += fmt::format(" --{}={}", flag, fmt::join(codes, ","));
  };
  tell_time("restart-backoff", rules.backoff);
  tell_time("restart-window", rules.window);
  tell_codes("no-restart-codes", rules.final_codes);
  tell_codes("free-restart-codes", rules.free_codes);
  if (rules.fruitless_max > 0) text += fmt::format(" --max-no-progress={}", rules.fruitless_max);
  if (const auto& limit = rules.host_limit; limit.failures > 0) {
    text += fmt::format(" --max-host-failures={}", limit.failures);
    if (limit.window > Duration{}) text += fmt::format("/{}", in_seconds(limit.window));
  }
  if (rules.scope == RestartScope::worker) text += " --restart-scope=worker";
  if (rules.reconfigures) text += " --on-failure=reconfigure";
  return text;
}

}  // namespace cpprun
