// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/node_figures.h"

#include <algorithm>

namespace cpprun {

namespace {

// Between two words of one node. Those of ten thousand nodes must not stand in the way of
// heartbeats: of all nodes of a job no more than so many come in a second.
constexpr Duration status_pause_min = std::chrono::seconds(2);
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
  const Duration share = Duration(std::chrono::seconds(1)) / statuses_per_second_max;
  return std::max<Duration>(status_pause_min, share * nodes);
}

}  // namespace cpprun
