// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/heartbeat_monitor.h"

#include <algorithm>

#include "proto/link/message.h"

namespace cpprun {

Duration unsaved_of(const std::vector<HeartbeatReading>& readings) {
  Duration unsaved{};
  for (const HeartbeatReading& each : readings) {
    unsaved = std::max(unsaved, each.since_checkpoint.value_or(Duration{}));
  }
  return unsaved;
}

link::Reached reached_of(const std::vector<HeartbeatReading>& readings) {
  link::Reached reached;
  for (const HeartbeatReading& each : readings) {
    reached.step = std::max(reached.step, each.step);
    reached.checkpoint_step = std::max(reached.checkpoint_step, each.checkpoint_step);
  }
  return reached;
}

Duration HeartbeatMonitor::timeout() const {
  if (!terms_) return Duration::max();
  if (!terms_->automatic) return terms_->fixed;
  const auto& [first, slowest] = step_times_;
  const Duration step = slowest > Duration{} ? slowest : first;
  return std::max(Duration{beat_timeout_least}, step * beat_timeout_steps);
}

void HeartbeatMonitor::started(TimePoint now, LocalRank local_rank) {
  add(now, {.local_rank = local_rank, .started = now, .last = now});
}

void HeartbeatMonitor::remained(TimePoint now, LocalRank local_rank) {
  add(now, {.local_rank = local_rank, .started = now, .last = now, .remained = true});
}

void HeartbeatMonitor::add(TimePoint now, Worker worker) {
  if (!terms_) return;
  // The heartbeats of the others are not read now.
  if (workers_.empty()) looked_ = now;
  workers_.push_back(worker);
  plan(now);
}

void HeartbeatMonitor::ended(LocalRank local_rank) {
  std::erase_if(workers_, [&](const Worker& each) { return each.local_rank == local_rank; });
  if (workers_.empty()) due_.reset();
}

bool HeartbeatMonitor::take_due(TimePoint now) {
  if (!due_ || now < *due_) return false;
  // A process that is this late may have been stopped, and its workers with it.
  slept_ = now - *due_ > beat_look_late;
  due_.reset();
  return true;
}

std::optional<HeartbeatMonitor::Silent> HeartbeatMonitor::heard(
    TimePoint now, const std::vector<HeartbeatReading>& readings) {
  if (!terms_) return std::nullopt;
  for (Worker& worker : workers_) {
    const auto its_own =
        std::ranges::find(readings, worker.local_rank, &HeartbeatReading::local_rank);
    if (its_own != readings.end()) hear(now, worker, *its_own);
    if (slept_ || worker.beats == 0) worker.last = now;
  }
  looked_ = now;
  slept_ = false;
  const Worker* hung = nullptr;
  for (Worker& worker : workers_) {
    const bool silent = now - worker.last >= timeout();
    const bool longest = hung == nullptr || worker.last < hung->last;
    if (silent && worker.doubted && longest) hung = &worker;
    worker.doubted = silent;
  }
  // The others are read on, even if this one alone is restarted.
  plan(now);
  if (hung == nullptr) return std::nullopt;
  return Silent{hung->local_rank, now - hung->last};
}

void HeartbeatMonitor::hear(TimePoint now, Worker& worker, const HeartbeatReading& reading) {
  if (reading.beats == worker.beats) return;
  if (worker.remained && worker.beats == 0 && reading.last < worker.started) return;
  const TimePoint last =
      std::clamp(reading.last, worker.beats == 0 ? worker.started : worker.last, now);
  if (worker.beats == 0) {
    // An upgraded agent, for example, has not read the earlier heartbeats.
    const bool is_first = !slept_ && !worker.remained;
    if (is_first) step_times_.first = std::max(step_times_.first, last - worker.started);
  } else if (reading.beats > worker.beats) {
    const auto made = std::min<std::uint64_t>(reading.beats - worker.beats, link::figure_max);
    // The average time of the steps since the previous read. The first of them took at least as
    // long as it had already taken at that read.
    learn((last - worker.last) / static_cast<Duration::rep>(made));
    learn(looked_ - worker.last);
  }
  worker.beats = reading.beats;
  worker.last = last;
}

void HeartbeatMonitor::learn(Duration step) {
  step_times_.slowest = std::max(step_times_.slowest, step);
}

void HeartbeatMonitor::plan(TimePoint now) {
  due_.reset();
  for (const Worker& worker : workers_) {
    const TimePoint due = worker.doubted ? now + beat_second_look : worker.last + timeout();
    if (!due_ || due < *due_) due_ = due;
  }
}

}  // namespace cpprun
