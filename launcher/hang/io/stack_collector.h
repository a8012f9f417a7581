// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Reads what the workers of this node do, from /proc and from their servers, for the judgement in
// launcher/hang. It blocks, so it runs in a helper process (AsyncTask).

#include <chrono>
#include <string>
#include <vector>

#include "launcher/hang/observation.h"
#include "proto/clock.h"
#include "proto/rank.h"

namespace cpprun::io {

struct ObservedWorker {
  LocalRank local_rank;
  Rank rank;
  int pid = 0;
  bool has_exited = false;
  std::string socket = {};  // of the probe; empty: there is no server
  // False: it has left several requests unanswered, and gets no other than a ping. PyTorch's server
  // has eight threads, and each such request holds one.
  bool asks_all = true;
  // It is about to exit: a traceback from a Python that shuts down would abort it.
  bool is_ending = false;
};

struct ObservationOptions {
  // Of everything. The helper process needs a little more.
  Duration timeout = std::chrono::seconds(2);
  // Between the two reads of CPU times.
  Duration interval = std::chrono::milliseconds(150);
  // For the servers, from the first read on. A worker that does not answer costs this.
  Duration answer_timeout = std::chrono::milliseconds(700);
  // Tracebacks of each worker that answers, within the interval.
  int samples = 1;
  bool from_outside = true;  // Python's memory, py-spy and libdw, where no server has answered
  bool native = false;       // libdw for all workers
  std::string py_spy = {};   // the program's path; empty: it is not run
};

// One observation per worker, in order.
std::vector<hang::Observation> observe_workers(const std::vector<ObservedWorker>& workers,
                                               const ObservationOptions& options);

}  // namespace cpprun::io
