// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/agent_messages.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "proto/bounds.h"
#include "proto/link/codec.h"
#include "proto/link/message.h"

namespace cpprun {

namespace {

// The precision on the wire: the coordinator in this process must get the same values as others.
Duration milliseconds(Duration duration) {
  return std::chrono::floor<std::chrono::milliseconds>(duration);
}

bool fits(const link::Join& join) {
  return link::encode(join).size() <= bounds::round_frame_bytes_max;
}

std::vector<std::string> addresses_for_others(const std::vector<NetworkInterface>& interfaces) {
  std::vector<std::string> addresses;
  for (const NetworkInterface& each : interfaces) {
    if (each.loopback || !each.up) continue;
    for (const std::string& address : each.addresses) {
      // Link-local addresses mean something else on every machine.
      if (!address.starts_with("fe80:")) addresses.push_back(address);
    }
  }
  return addresses;
}

}  // namespace

link::Join join_message(const Config& config, const AgentFacts& facts, const JoinState& state) {
  link::Join join{.job = config.job,
                  .host = facts.host,
                  .pid = facts.pid,
                  .agent = facts.agent,
                  .node_rank = config.node_rank,
                  .nodes_min = config.nodes_min,
                  .nodes_max = config.nodes_max,
                  .local_world_size = config.local_world_size,
                  .role = config.role,
                  .restarts = config.restarts,
                  .lease = milliseconds(config.lease()),
                  .last_call = milliseconds(config.last_call),
                  .after = state.after,
                  .idle = state.idle,
                  .done = state.done,
                  .sent = state.sent,
                  .store_is_local = config.store == StoreWay::local,
                  // In a cluster, another cpprund takes over.
                  .can_lead = config.may_have_standby() && state.epoch == 0,
                  .vote = state.vote,
                  .turns = true,
                  .epoch = state.epoch,
                  .fresh = state.fresh};
  for (Duration* const each :
       {&join.restarts.backoff, &join.restarts.window, &join.restarts.host_limit.window}) {
    *each = milliseconds(*each);
  }
  auto addresses = addresses_for_others(facts.interfaces);
  if (addresses.size() <= bounds::node_addresses_max) {
    // Usually all of them fit, and one encoding shows it.
    join.addresses = addresses;
    if (fits(join)) return join;
    join.addresses.clear();
  }
  for (std::string& address : addresses) {
    if (join.addresses.size() == bounds::node_addresses_max) return join;
    join.addresses.push_back(std::move(address));
    if (!fits(join)) join.addresses.pop_back();
  }
  return join;
}

namespace {

// Thousandths of a step per second.
std::int64_t rate_of(std::int64_t steps, Duration took) {
  if (took <= Duration{}) return 0;
  return static_cast<std::int64_t>(1000.0 * static_cast<double>(steps) / in_seconds(took));
}

std::optional<std::int64_t> where_told(std::uint64_t figure) {
  return figure == 0 ? std::nullopt : std::optional(static_cast<std::int64_t>(figure));
}

}  // namespace

bool WorkerStatsReporter::watch(TimePoint now, Duration length) {
  until_ = std::max(until_, now + length);
  return !std::exchange(is_looking_, true);
}

bool WorkerStatsReporter::changed(TimePoint now) {
  return now < until_ && !std::exchange(is_looking_, true);
}

link::Status WorkerStatsReporter::tell(TimePoint now, RoundNumber round,
                                       const std::vector<WorkerView>& workers,
                                       const std::vector<WorkerSight>& sights) {
  is_looking_ = false;
  std::vector<link::WorkerStats> all;
  for (const WorkerView& view : workers) {
    const auto seen = std::ranges::find(sights, view.local_rank, &WorkerSight::local_rank);
    const WorkerSight none{.local_rank = view.local_rank};
    all.push_back(figures_of(now, view, seen == sights.end() ? none : *seen));
  }
  const std::vector<std::size_t> order = in_turn(workers);
  // A frame always fits one worker, and at most this many of the smallest.
  constexpr std::size_t told_max = 24;
  link::Status status;
  for (std::size_t count = std::min(order.size(), told_max); count > 0; --count) {
    std::vector<std::size_t> chosen(order.begin(),
                                    order.begin() + static_cast<std::ptrdiff_t>(count));
    std::ranges::sort(chosen);
    status = {.round = round};
    for (const std::size_t index : chosen) status.workers.push_back(all[index]);
    if (link::brief(status) != status) continue;
    for (const std::size_t index : chosen) memories_[all[index].local_rank].told = all[index].state;
    next_ = (order[count - 1] + 1) % workers.size();
    break;
  }
  return status;
}

// First the workers with an unreported state change, then those after the last reported one.
std::vector<std::size_t> WorkerStatsReporter::in_turn(
    const std::vector<WorkerView>& workers) const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < workers.size(); ++i) order.push_back((next_ + i) % workers.size());
  std::ranges::stable_partition(order, [&](std::size_t index) {
    const auto known = memories_.find(workers[index].local_rank);
    return known != memories_.end() && known->second.told != workers[index].state;
  });
  return order;
}

link::WorkerStats WorkerStatsReporter::figures_of(TimePoint now, const WorkerView& view,
                                                  const WorkerSight& sight) {
  link::WorkerStats figures{.local_rank = view.local_rank,
                            .pid = view.pid,
                            .state = view.state,
                            .since = now - view.since,
                            .resident_kib = sight.resident_kib,
                            .last_words = sight.last_words};
  const auto [at, is_first] = memories_.try_emplace(view.local_rank);
  Memory& memory = at->second;
  if (is_first) memory.looked = view.since;
  if (sight.cpu && now > memory.looked) {
    figures.cpu_percent = static_cast<std::int64_t>(100.0 * in_seconds(*sight.cpu - memory.cpu) /
                                                    in_seconds(now - memory.looked));
    memory.cpu = *sight.cpu;
  }
  memory.looked = now;
  if (!sight.beat) return figures;
  const HeartbeatReading& beat = *sight.beat;
  const std::int64_t step = where_told(beat.step).value_or(static_cast<std::int64_t>(beat.beats));
  const Duration silence = now - beat.last;
  if (memory.beat == TimePoint{} || step < memory.step) {
    memory.rate.reset();  // nothing to compare with
  } else if (step > memory.step) {
    memory.rate = rate_of(step - memory.step, beat.last - memory.beat);
  } else if (memory.rate) {
    memory.rate = std::min(*memory.rate, rate_of(1, std::max(silence, Duration{1})));
  }
  memory.step = step;
  memory.beat = beat.last;
  figures.step = step;
  figures.millisteps_per_second = memory.rate;
  figures.samples = where_told(beat.samples);
  figures.checkpoint_step = where_told(beat.checkpoint_step);
  figures.last_beat = silence;
  return figures;
}

}  // namespace cpprun
