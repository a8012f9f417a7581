// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a node has said of its workers while somebody looked, and when it was asked last. For
// whoever looks; decides nothing.

#include <optional>
#include <vector>

#include "proto/clock.h"
#include "proto/link/message.h"

namespace cpprun {

struct SeenWorker {
  link::WorkerFigures figures;
  TimePoint at{};  // when it was said
};

struct NodeFigures {
  std::optional<TimePoint> asked = {};
  std::vector<SeenWorker> workers = {};  // in order of local rank

  // Those that are told of replace what was known of them. A node speaks of no more workers than it
  // has.
  void hear(TimePoint now, const link::Status& status, int local_world_size);
};

// Between two questions to one node of a job of that many.
Duration pause_between_looks(std::size_t nodes);

}  // namespace cpprun
