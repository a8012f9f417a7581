// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/node_figures.h"

#include <algorithm>

namespace cpprun {

namespace {

// Between two words of one node. Each wakes the coordinator up, which costs it 40 us, so that 200 a
// second are what may be spent on a job that is looked at all the time: less than 1 % of a core.
// In a job of thousands figures would be too old then, but many words come with one wake-up: those
// of ten thousand nodes may come in ten seconds, and no faster, because of the heartbeats.
constexpr Duration status_pause_min = std::chrono::seconds(2);
constexpr Duration status_pause_of_many = std::chrono::seconds(10);
constexpr int statuses_per_second = 200;
constexpr int statuses_per_second_max = 1000;

}  // namespace

void NodeFigures::hear(TimePoint now, const link::Status& status, int local_world_size) {
  for (const link::WorkerFigures& each : status.workers) {
    if (each.local_rank.value >= local_world_size) return;  // they come in order
    const auto at =
        std::ranges::lower_bound(workers, each.local_rank, {},
                                 [](const SeenWorker& seen) { return seen.figures.local_rank; });
    if (at != workers.end() && at->figures.local_rank == each.local_rank) {
      *at = {each, now};
    } else {
      workers.insert(at, {each, now});
    }
  }
}

Duration pause_between_looks(std::size_t nodes) {
  const Duration second = std::chrono::seconds(1);
  const Duration cheap = second / statuses_per_second * nodes;
  const Duration bearable = second / statuses_per_second_max * nodes;
  return std::max({status_pause_min, std::min(cheap, status_pause_of_many), bearable});
}

}  // namespace cpprun
