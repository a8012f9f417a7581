// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/progress.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace cpprun {

namespace {

// Enough to see whether those that are behind are of one node.
constexpr std::size_t slow_workers_shown_max = 5;

template <class Value>
void lower(std::optional<Value>& least, const std::optional<Value>& value) {
  if (value && (!least || *value < *least)) least = value;
}
template <class Value>
void raise(std::optional<Value>& most, const std::optional<Value>& value) {
  if (value && (!most || *value > *most)) most = value;
}

void add_time(std::optional<Duration>& age, Duration passed) {
  if (age) *age += passed;
}

// Whoever is at an earlier step, has made fewer a second, or has been silent for longer.
bool is_slower(const SlowWorker& left, const SlowWorker& right) {
  const auto order = [](const SlowWorker& each) {
    const auto& figures = each.worker.figures;
    return std::tuple(figures.step.value_or(0), -figures.last_beat.value_or(Duration{}),
                      each.worker.rank);
  };
  return order(left) < order(right);
}

}  // namespace

std::vector<WorkerSnapshot> workers_of(const Member& member, TimePoint now) {
  std::vector<WorkerSnapshot> workers;
  workers.reserve(member.figures.workers.size());
  for (const SeenWorker& seen : member.figures.workers) {
    const Duration passed = std::max(now - seen.at, Duration{});
    WorkerSnapshot worker{.rank = Rank{member.ranks.base.value + seen.figures.local_rank.value},
                          .figures = seen.figures,
                          .at = seen.at};
    worker.figures.since += passed;
    add_time(worker.figures.last_beat, passed);
    add_time(worker.figures.last_words, passed);
    workers.push_back(std::move(worker));
  }
  return workers;
}

JobProgress progress_of(const Job& job, TimePoint now) {
  JobProgress progress;
  auto& slowest = progress.slowest;
  job.round().each([&](LinkId, const Member& member) {
    if (member.state == Member::State::waiting) return;
    for (WorkerSnapshot& worker : workers_of(member, now)) {
      const auto& figures = worker.figures;
      raise(progress.checkpoint_step, figures.checkpoint_step);
      if (figures.state != WorkerState::running) continue;
      ++progress.workers;
      raise(progress.resident_kib_max, figures.resident_kib);
      raise(progress.told_ago_max, std::optional<Duration>(now - worker.at));
      if (!figures.step) continue;
      ++progress.beating;
      lower(progress.step_min, figures.step);
      raise(progress.step_max, figures.step);
      lower(progress.millisteps_per_second_min, figures.millisteps_per_second);
      raise(progress.beat_age_max, figures.last_beat);
      SlowWorker slow{std::move(worker), member.group_rank.value_or(GroupRank{}), {}};
      const bool is_full = slowest.size() == slow_workers_shown_max;
      if (is_full && !is_slower(slow, slowest.back())) continue;
      if (is_full) slowest.pop_back();
      slow.host = member.join.host;
      slowest.insert(std::ranges::upper_bound(slowest, slow, is_slower), std::move(slow));
    }
  });
  return progress;
}

}  // namespace cpprun
