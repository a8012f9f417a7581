// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/hang/progress_monitor.h"

#include <functional>
#include <string>
#include <string_view>

namespace cpprun {

namespace {

// Below these, processes that only wait for something (a thread that polls, a logger) look idle.
constexpr std::uint64_t bytes_least = 4 * 1024;
constexpr std::uint64_t bytes_of_observation = 256 * 1024;
constexpr std::uint64_t children_bytes_least = 256 * 1024;
constexpr std::int64_t memory_kib_least = 1024;
constexpr std::int64_t memory_kib_of_observation = 4096;
constexpr int cpu_least_percent = 5;
// What a worker may spend to answer: a flight record has 2,000 entries, and a stack in C++ is
// looked up in its symbols.
constexpr Duration cpu_of_observation = std::chrono::milliseconds(200);
// Of the time between two reads. More stacks than this are a computation.
constexpr std::size_t loop_stacks_max = 2;
// Python passes the GIL on 5 ms after another thread asks for it.
constexpr Duration gil_wait_least = std::chrono::milliseconds(5);
// If even a ping takes this long, the CPUs are overloaded, and a late answer tells nothing.
constexpr Duration overloaded_ping_least = std::chrono::milliseconds(20);
constexpr int observations_least = 3;
// Nor does no answer, if the main thread was ready to run and had less of the time than this.
constexpr int starved_percent = 50;

bool is_much(Duration cpu, Duration interval) {
  return cpu * 100 > interval * cpu_least_percent;
}

std::size_t hash_of(const std::vector<hang::Frame>& stack) {
  std::size_t hash = stack.size();
  for (const hang::Frame& each : stack) {
    hash = hash * 31 + std::hash<std::string>{}(each.function + each.file);
    hash = hash * 31 + static_cast<std::size_t>(each.line);
  }
  return hash;
}

// Of the threads that compute: the main thread may only wait for another one.
std::size_t hash_of(std::string_view traceback, bool is_main_busy) {
  std::size_t hash = 0;
  const auto threads = hang::parse_traceback(traceback);
  if (!threads) return hash;
  for (const hang::ThreadStack& each : *threads) {
    if (each.frames.empty() || (is_main_busy && !each.is_main)) continue;
    hash = hash * 31 + hash_of(each.frames);
  }
  return hash;
}

bool is_starved(const hang::Observation& observation) {
  const auto& threads = observation.process.threads;
  return !threads.empty() && threads.front().state == 'R' &&
         threads.front().cpu_meanwhile * 100 < observation.interval * starved_percent;
}

std::int64_t operations_of(const std::vector<hang::Position>& positions) {
  std::int64_t sum = 0;
  for (const hang::Position& each : positions) {
    sum += each.sequence + each.last() + (each.is_pending ? 0 : 1);
  }
  return sum;
}

}  // namespace

void ProgressMonitor::started(TimePoint now, LocalRank local_rank) {
  if (!timeout_) return;
  Worker worker{.local_rank = local_rank, .progress = now, .signs = {}};
  worker.signs.local_rank = local_rank;
  workers_.push_back(std::move(worker));
  if (due_) return;
  read_ = now;
  due_ = now + interval();
}

void ProgressMonitor::ended(LocalRank local_rank) {
  std::erase_if(workers_, [&](const Worker& each) { return each.local_rank == local_rank; });
  if (workers_.empty()) due_.reset();
}

bool ProgressMonitor::take_due(TimePoint now) {
  if (!due_ || now < *due_) return false;
  due_ = now + interval();
  return true;
}

void ProgressMonitor::progressed(TimePoint now, Worker& worker) {
  worker.progress = now;
  worker.stacks.clear();
  worker.observations = worker.with_gil = 0;
}

bool ProgressMonitor::heard(TimePoint now, const std::vector<ProgressSigns>& signs) {
  const Duration since = now - read_;
  // This process was suspended, and so were the workers.
  const bool has_slept = since > 2 * interval() + std::chrono::seconds(1);
  read_ = now;
  // CPU time is counted in ticks of 10 ms.
  const bool is_long = since * 4 >= interval();
  bool asks = false;
  for (Worker& worker : workers_) {
    const auto found = std::ranges::find(signs, worker.local_rank, &ProgressSigns::local_rank);
    if (found == signs.end()) continue;
    const ProgressSigns before = std::exchange(worker.signs, *found);
    const ProgressSigns& is = worker.signs;
    if (is.last_output && *is.last_output > worker.progress) progressed(*is.last_output, worker);
    const bool was_observed = std::exchange(worker.was_observed, false);
    const auto bytes = was_observed ? bytes_of_observation : bytes_least;
    const auto memory = was_observed ? memory_kib_of_observation : memory_kib_least;
    const Duration cpu = is.cpu - before.cpu - (was_observed ? cpu_of_observation : Duration{});
    const bool moves = is.beats != before.beats || is.bytes > before.bytes + bytes ||
                       is.memory_kib > before.memory_kib + memory ||
                       is.children_bytes > before.children_bytes + children_bytes_least ||
                       (is_long && is_much(is.children_cpu - before.children_cpu, since));
    if (moves || has_slept) progressed(now, worker);
    worker.is_computing = !moves && !has_slept && is_long && is_much(cpu, since);
    asks = asks || worker.is_computing;
  }
  return asks;
}

void ProgressMonitor::observed(TimePoint now, const std::vector<hang::Observation>& observations) {
  for (Worker& worker : workers_) {
    const auto found =
        std::ranges::find(observations, worker.local_rank, &hang::Observation::local_rank);
    if (found != observations.end()) worker.was_observed = true;
    // Without an observation, the helper process lacked time as well: the machine is overloaded.
    if (!worker.is_computing) continue;
    if (found == observations.end() || !is_loop(worker, *found)) progressed(now, worker);
  }
}

// Or in a collective operation that has not advanced.
bool ProgressMonitor::is_loop(Worker& worker, const hang::Observation& observation) const {
  const hang::WorkerEvidence evidence = hang::evidence_of(observation);
  const std::int64_t operations = operations_of(evidence.positions);
  const bool has_record = !evidence.positions.empty();
  const bool has_advanced = std::exchange(worker.operations, operations) != operations;
  if (has_advanced && has_record) return false;
  switch (evidence.activity) {
    case hang::Activity::stopped:
      return true;
    case hang::Activity::gil:
      return !is_starved(observation);
    case hang::Activity::collective:
      return has_record;
    default:
      break;
  }
  // Not asked again after it had not answered: it still holds the GIL, as far as is known.
  if (observation.traceback.kind == hang::Answer::Kind::silent) return !is_starved(observation);
  if (evidence.stack.empty() || evidence.is_native) return false;
  const auto add = [&](std::string_view traceback) {
    const std::size_t hash = hash_of(traceback, evidence.activity == hang::Activity::busy);
    if (std::ranges::find(worker.stacks, hash) == worker.stacks.end()) {
      worker.stacks.push_back(hash);
    }
  };
  add(observation.traceback.body);
  for (const std::string& each : observation.later_tracebacks) add(each);
  if (worker.stacks.size() > loop_stacks_max) return false;
  ++worker.observations;
  // On a busy machine every answer comes late.
  const Duration ping = observation.ping.took;
  const bool is_late = observation.traceback.took >= ping + gil_wait_least;
  if (is_late && ping < overloaded_ping_least) ++worker.with_gil;
  // Until then it may be either.
  if (worker.observations < observations_least) return true;
  return worker.with_gil * 5 >= worker.observations * 4;
}

Duration ProgressMonitor::quiet(TimePoint now) const {
  TimePoint last{};
  for (const Worker& each : workers_) last = std::max(last, each.progress);
  return workers_.empty() || last >= read_ ? Duration{} : now - last;
}

}  // namespace cpprun
