// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A number that tells a worker's processes from everybody else's. It is worn as the soft limit of a
// process' real-time computing (RLIMIT_RTTIME), a limit of tens of thousands of years that nobody
// ever meets: a process hands it to everybody it starts, wherever that one runs to, keeps it
// through exec, setsid and an environment that was cleared, and shows it to whoever asks. Batch
// systems pass an environment on to the jobs that they start, and ordinary limits; not this one.

#include <cstdint>

namespace cpprun {

struct WorkerMark {
  std::uint64_t value = 0;  // as it is worn
  friend bool operator==(const WorkerMark&, const WorkerMark&) = default;
};

// A run's mark: its own number, and that of the cpprun whose worker we are, if `worn`, our own
// limit, says so. Whoever looks for the outer one's processes finds the inner one's too.
WorkerMark make_worker_mark(std::uint32_t random, std::uint64_t worn);

// Whether a process that wears `worn` was started by a worker of the run with this mark.
bool is_marked(std::uint64_t worn, WorkerMark mark);

}  // namespace cpprun
