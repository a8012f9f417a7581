// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Requests to the servers in workers, all at once, over their Unix sockets. A worker that does not
// answer, or answers garbage, delays only its own answer.

#include <string>
#include <vector>

#include "launcher/hang/observation.h"
#include "proto/clock.h"

namespace cpprun::io {

struct WorkerRequest {
  std::string socket;
  std::string target;  // "/handler/ping"
  hang::Answer answer = {};
  int answered_by = 0;  // the process that serves on the socket; 0: unknown
};

// Fills in each answer, until `deadline` at the latest.
void ask_workers(std::vector<WorkerRequest>& requests, TimePoint deadline);

}  // namespace cpprun::io
