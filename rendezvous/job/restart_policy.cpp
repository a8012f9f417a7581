// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/restart_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/job/bounds.h"
#include "rendezvous/job/round_outcome.h"

namespace cpprun {

namespace {

const std::string whole_job;       // the budget of --max-restarts itself
const std::string no_cause = "?";  // of --free-restart-codes; no cause has this name

// If its workers send no heartbeats, a round that lived this long counts as progress.
constexpr Duration fruitful_life = std::chrono::minutes(1);
// For an unlimited budget: more restarts cannot make the pause longer.
constexpr std::size_t moments_kept_max = 64;

std::string code_text(const link::ExitStatus& status) {
  return fmt::format("{} {}", status.signalled ? "signal" : "exit code", status.value);
}

bool lists(const std::vector<int>& codes, const link::ExitStatus& status) {
  return std::ranges::find(codes, status.signalled ? -status.value : status.value) != codes.end();
}

RestartPolicy::Verdict no(std::string reason) {
  return {.restart = false, .pause = {}, .reason = std::move(reason)};
}

void drop_before(std::deque<TimePoint>& moments, TimePoint now, Duration window) {
  while (window > Duration{} && !moments.empty() && moments.front() + window <= now) {
    moments.pop_front();
  }
}

}  // namespace

RestartPolicy::Verdict RestartPolicy::judge(TimePoint now, const End& end) {
  const bool is_looping = loops(end);
  note_progress(end);
  for (auto& [name, moments] : state_.spent) drop_before(moments, now, rules_.window);
  Verdict verdict = decide(now, end, is_looping);
  verdict.failing_host = failing_host(now, end);
  return verdict;
}

RestartPolicy::Verdict RestartPolicy::decide(TimePoint now, const End& end, bool is_looping) {
  const link::ExitStatus status = end.root.status;
  const CauseBudget* const budget = rules_.budget_for(end.root.cause);
  if (is_change(end)) {
    return {.restart = true, .pause = {}, .reason = "the next round follows"};
  }
  if (!rules_.may_restart()) return no("no restart is allowed");
  if (!end.lost && lists(rules_.final_codes, status)) {
    return no(fmt::format("{} is listed in --no-restart-codes", code_text(status)));
  }
  if (is_looping) {
    return no(fmt::format("rank {} died within {} s of its start {} times in a row",
                          end.root.rank.value, in_seconds(bounds::crash_loop_life),
                          bounds::crash_loop_deaths));
  }
  if (rules_.fruitless_max > 0 && state_.fruitless >= rules_.fruitless_max)
    return no(fruitless_text());
  if (!end.lost && lists(rules_.free_codes, status)) {
    return spend(
        now, no_cause,
        fmt::format("a restart after {} does not count (--free-restart-codes)", code_text(status)));
  }
  if (budget != nullptr && !budget->max) {
    return spend(now, budget->cause, fmt::format("restarts after {} are unlimited", budget->cause));
  }
  const std::string name = budget ? budget->cause : whole_job;
  const std::string after = budget ? fmt::format(" after {}", budget->cause) : "";
  const int most = budget ? *budget->max : rules_.max;
  if (most == 0) return no(fmt::format("no restart{} is allowed", after));
  if (spent(now, name) >= most) {
    const std::string of_window = rules_.window > Duration{}
                                      ? fmt::format(" of the last {} s", in_seconds(rules_.window))
                                      : "";
    return no(fmt::format("all {} restarts{}{} are used", most, after, of_window));
  }
  return spend(now, name, fmt::format("restart {} of {}{}", spent(now, name) + 1, most, after));
}

// It changes the membership, and is no failure.
bool RestartPolicy::is_change(const End& end) const {
  return end.lost && rules_.budget_for(end.root.cause) == nullptr;
}

RestartPolicy::Verdict RestartPolicy::spend(TimePoint now, const std::string& budget_name,
                                            std::string reason) {
  const Duration pause = next_pause();
  RestartState::Moments& moments = state_.spent[budget_name];
  moments.push_back(now);
  const CauseBudget* const budget = rules_.budget_for(budget_name);
  const bool has_bottom = budget_name == whole_job || (budget != nullptr && budget->max);
  if (!has_bottom && moments.size() > moments_kept_max) moments.pop_front();
  ++state_.restarts_used;
  return {.restart = true, .pause = pause, .reason = std::move(reason), .counts = true};
}

int RestartPolicy::spent(TimePoint now, const std::string& budget_name) const {
  const auto found = state_.spent.find(budget_name);
  if (found == state_.spent.end()) return 0;
  return static_cast<int>(std::ranges::count_if(found->second, [&](TimePoint restart) {
    return rules_.window == Duration{} || restart + rules_.window > now;
  }));
}

int RestartPolicy::restarts_left(TimePoint now) const {
  return rules_.max - spent(now, whole_job);
}

std::optional<int> RestartPolicy::restarts_left(TimePoint now, const CauseBudget& budget) const {
  if (!budget.max) return std::nullopt;
  return *budget.max - spent(now, budget.cause);
}

bool RestartPolicy::can_fail_for_ever() const {
  const auto bottomless = [](const CauseBudget& each) { return !each.max; };
  return rules_.backoff > Duration{} || rules_.window > Duration{} || !rules_.free_codes.empty() ||
         std::ranges::any_of(rules_.budgets, bottomless);
}

// Whether the same rank has died at its start too often. Counts this death.
bool RestartPolicy::loops(const End& end) {
  const bool early = end.life <= bounds::crash_loop_life && !end.lost;
  int deaths = 0;
  if (const auto known = early_deaths_.extract(end.root.rank); early && known) {
    deaths = known.mapped();
  }
  // Others are independent of that rank, or had no chance to die early.
  if (rules_.scope == RestartScope::job) early_deaths_.clear();
  if (!early) return false;
  early_deaths_[end.root.rank] = ++deaths;
  return can_fail_for_ever() && deaths >= bounds::crash_loop_deaths;
}

// A round that did not start with a restart does not count as one without progress. For a job that
// saves checkpoints only a new checkpoint is progress: the steps after it are lost.
void RestartPolicy::note_progress(const End& end) {
  const link::Reached before = state_.farthest;
  state_.farthest.step = std::max(state_.farthest.step, end.reached.step);
  state_.farthest.checkpoint_step =
      std::max(state_.farthest.checkpoint_step, end.reached.checkpoint_step);
  const bool is_further = state_.farthest.checkpoint_step > 0
                              ? state_.farthest.checkpoint_step > before.checkpoint_step
                          : state_.farthest.step > 0 ? state_.farthest.step > before.step
                                                     : end.life >= fruitful_life;
  if (is_further) {
    state_.fruitless = 0;
  } else if (state_.restarts_used > 0 && !is_change(end)) {
    ++state_.fruitless;
  }
}

std::string RestartPolicy::fruitless_text() const {
  const std::string where =
      state_.farthest.checkpoint_step > 0
          ? fmt::format("beyond the checkpoint of step {}", state_.farthest.checkpoint_step)
      : state_.farthest.step > 0 ? fmt::format("beyond step {}", state_.farthest.step)
                                 : fmt::format("beyond {} s", in_seconds(fruitful_life));
  return fmt::format(
      "the last {} made no progress {} (--max-no-progress={})",
      state_.fruitless == 1 ? "restart" : fmt::format("{} restarts", state_.fruitless), where,
      rules_.fruitless_max);
}

std::optional<std::string> RestartPolicy::failing_host(TimePoint now, const End& end) {
  const HostLimit& limit = rules_.host_limit;
  // No host is to blame for unevenly distributed data.
  const bool is_of_host = !end.root.consequence && end.root.cause != left_early;
  if (limit.failures == 0 || end.root.host.empty() || !is_of_host) return std::nullopt;
  RestartState::Moments& moments = state_.host_failures[end.root.host];
  moments.push_back(now);
  drop_before(moments, now, limit.window);
  if (moments.size() < static_cast<std::size_t>(limit.failures)) return std::nullopt;
  state_.host_failures.erase(end.root.host);
  return end.root.host;
}

// Doubles with each restart that still counts, so that repeated failures leave more time to
// recover.
Duration RestartPolicy::next_pause() const {
  const Duration most = rules_.pause_max();
  std::size_t count = 0;
  for (const auto& [name, moments] : state_.spent) count += moments.size();
  Duration pause = rules_.backoff;
  for (std::size_t i = 0; i < count && pause < most; ++i) pause *= 2;
  return std::min(pause, most);
}

}  // namespace cpprun
