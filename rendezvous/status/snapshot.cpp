// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "proto/text.h"

namespace cpprun {

namespace {

// Enough to see whether the slow ranks share a node.
constexpr std::size_t slow_workers_shown_max = 5;
// Ranks of a real job report the same few names.
constexpr std::size_t metrics_shown_max = 32;

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

// Orders by earlier step, then by longer time since the last heartbeat, then by rank.
bool is_slower(const SlowWorker& left, const SlowWorker& right) {
  const auto order = [](const SlowWorker& each) {
    const auto& figures = each.worker.figures;
    return std::tuple(figures.step.value_or(0), -figures.last_beat.value_or(Duration{}),
                      each.worker.rank);
  };
  return order(left) < order(right);
}

// Adds a worker's metrics to those of the lowest ranks, which are ordered by name.
void add_metrics(std::vector<MetricSnapshot>& metrics, const WorkerSnapshot& worker) {
  for (const link::Metric& each : worker.figures.metrics) {
    const auto at = std::ranges::lower_bound(
        metrics, each.name, {},
        [](const MetricSnapshot& seen) -> const std::string& { return seen.metric.name; });
    if (at == metrics.end() || at->metric.name != each.name) {
      if (metrics.size() < metrics_shown_max) metrics.insert(at, {each, worker.rank});
    } else if (worker.rank < at->rank) {
      *at = {each, worker.rank};
    }
  }
}

// Nothing unless the total and the speed are known.
std::optional<Duration> remaining_of(const JobProgress& progress) {
  const auto speed = progress.millisteps_per_second_min.value_or(0);
  if (!progress.total || !progress.step_min || speed <= 0) return std::nullopt;
  const auto steps = std::max<std::int64_t>(*progress.total - *progress.step_min, 0);
  const double seconds = 1000.0 * static_cast<double>(steps) / static_cast<double>(speed);
  constexpr double seconds_max = 1e9;  // thirty years
  if (seconds > seconds_max) return std::nullopt;
  return std::chrono::round<Duration>(std::chrono::duration<double>(seconds));
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
      add_metrics(progress.metrics, worker);
      if (!figures.step) continue;
      ++progress.beating;
      raise(progress.total, figures.total);
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
  progress.remaining = remaining_of(progress);
  return progress;
}

namespace {

JobState state_of(const Job& job) {
  if (job.over()) return JobState::over;
  if (job.rounds().pauses()) return JobState::pausing;
  switch (job.round().phase()) {
    case Round::Phase::gathering:
      return JobState::gathering;
    case Round::Phase::sealed:
      return JobState::running;
    case Round::Phase::draining:
      return JobState::draining;
  }
  return JobState::gathering;
}

// Nodes with a group rank first, in that order; then the others in the order in which they
// connected.
std::tuple<bool, GroupRank, LinkId> order_of(const NodePosition& place) {
  return {!place.node, place.node.value_or(GroupRank{}), place.node ? LinkId{} : place.link};
}

struct Found {
  LinkId link;
  const Member* member;
  NodePosition place() const { return {member->group_rank, link}; }
};

NodeSnapshot node_of(const Job& job, TimePoint now, const Found& found) {
  const Member& member = *found.member;
  NodeSnapshot node{.host = member.join.host,
                    .node = member.group_rank,
                    .state = member.state,
                    .since = member.since,
                    .connected = member.connected,
                    .leaving = member.leaving,
                    .local = member.local,
                    .pid = member.join.pid,
                    .workers = member.join.local_world_size,
                    .role = member.join.role,
                    .upgrade = member.upgraded};
  if (member.group_rank) node.base_rank = member.ranks.base;
  if (const auto heard = job.round().leases().heard(found.link)) node.silence = now - *heard;
  return node;
}

}  // namespace

JobSnapshot snapshot_of(const Job& job, TimePoint now) {
  const Round& round = job.round();
  JobSnapshot snapshot{.terms = job.terms(),
                       .state = state_of(job),
                       .since = job.since(),
                       .round = round.number(),
                       .restarts_used = job.rounds().policy().restarts_used(),
                       .restarts_left = job.rounds().policy().restarts_left(now),
                       .lease = job.lease(),
                       .nodes = {.waiting = round.count(Member::State::waiting),
                                 .running = round.count(Member::State::running),
                                 .succeeded = round.count(Member::State::succeeded),
                                 .drained = round.count(Member::State::drained),
                                 .away = round.away()},
                       .world_size = round.world_size(),
                       .failures_by_cause = job.rounds().history().failures(),
                       .restarts_by_cause = job.rounds().history().restarts(),
                       .finish = job.finish()};
  for (const CauseBudget& each : snapshot.terms.restarts.budgets) {
    snapshot.budgets_left.push_back(job.rounds().policy().restarts_left(now, each));
  }
  if (const auto lease = round.leases().longest_silent()) snapshot.silence_max = now - lease->heard;
  return snapshot;
}

JobSnapshot measured(const Job& job, TimePoint now) {
  JobSnapshot snapshot = snapshot_of(job, now);
  snapshot.time = job.rounds().time().told(now);
  snapshot.progress = progress_of(job, now);
  return snapshot;
}

JobDetails details_of(const Job& job, TimePoint now, const std::optional<DaemonSnapshot>& daemon) {
  JobDetails details{.job = measured(job, now),
                     .waits_for = job.waits_for(now),
                     .cover = job.cover_text(),
                     .durable = daemon ? daemon->durable : std::nullopt,
                     .rounds = job.rounds().history().list(),
                     .rounds_left_out = job.rounds().history().left_out()};
  if (daemon && !details.cover.empty()) details.cover = cover_text(*daemon);
  if (daemon && !job.over()) {
    details.warnings = warnings_of(*daemon);
  } else if (auto exposed = job.exposure_text(); !exposed.empty()) {
    details.warnings.push_back(std::move(exposed));
  }
  // The draining round is not recorded yet; add the failures known so far.
  if (!details.rounds.empty() && !details.rounds.back().ended) {
    tell_end(details.rounds.back(), job.rounds().round_end());
  }
  return details;
}

NodePage nodes_of(const Job& job, TimePoint now, const NodeFilter& filter) {
  const auto& after = filter.after;
  std::vector<Found> found;
  job.round().each([&](LinkId link, const Member& member) {
    const Found each{link, &member};
    if (!after || order_of(*after) < order_of(each.place())) found.push_back(each);
  });
  const auto by_order = [](const Found& left, const Found& right) {
    return order_of(left.place()) < order_of(right.place());
  };
  const std::size_t count = std::min(found.size(), filter.nodes_max);
  const auto end = found.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(found.begin(), end, found.end(), by_order);
  NodePage page;
  page.nodes.reserve(count);
  for (auto at = found.begin(); at != end; ++at) {
    page.nodes.push_back(node_of(job, now, *at));
    if (filter.with_ranks && at->member->state != Member::State::waiting) {
      page.nodes.back().ranks = workers_of(*at->member, now);
    }
  }
  if (count < found.size() && count > 0) page.next = found[count - 1].place();
  return page;
}

std::string to_text(const NodePosition& place) {
  return place.node ? fmt::format("{}", place.node->value) : fmt::format("w{}", place.link.value);
}

std::optional<NodePosition> node_place(std::string_view text) {
  if (text.starts_with('w')) {
    const auto link = exact_number<std::uint64_t>(text.substr(1));
    if (!link) return std::nullopt;
    return NodePosition{.link = LinkId{*link}};
  }
  const auto node = exact_number<int>(text);
  if (!node || *node < 0) return std::nullopt;
  return NodePosition{.node = GroupRank{*node}};
}

std::string_view name_of(JobState state) {
  constexpr std::array<std::string_view, 5> names = {"gathering", "pausing", "running", "draining",
                                                     "over"};
  return names[static_cast<std::size_t>(state)];
}

std::string_view name_of(Member::State state) {
  constexpr std::array<std::string_view, 4> names = {"waiting", "running", "succeeded", "drained"};
  return names[static_cast<std::size_t>(state)];
}

}  // namespace cpprun
