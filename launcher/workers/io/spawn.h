// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Starting one process, as cheaply as the kernel allows: the child borrows our memory until it
// executes its program, so nothing is copied, and tells how far it came in that same memory.

#include <sys/resource.h>

#include <optional>
#include <tl/expected.hpp>
#include <vector>

#include "launcher/plan/plan.h"
#include "launcher/workers/spawn.h"

namespace cpprun::io {

struct Child {
  int pid = 0;
  int pidfd = -1;  // the caller's to close; -1 where the kernel, or a sandbox, has none
};

// The signals that this process handles or ignores now.
std::vector<int> changed_signals();

// What every worker starts with, whatever its spec says.
struct WorkerLimits {
  std::optional<rlimit> open_files;  // none: ours
  std::optional<WorkerMark> mark;    // what it and all that it starts are known by
  std::optional<int> niceness;       // none: ours
  Environment inherited;             // the spec's variables are laid over it
  // What is reset for it. Asked for once: there are 64 signals, and many workers.
  std::vector<int> signals = changed_signals();
};

// `out` and `err` are descriptors for the worker's streams, or -1 where the spec alone decides.
// The child has its own session and group, dies with us, and inherits stdin and nothing else.
tl::expected<Child, SpawnError> spawn_process(const WorkerSpec& spec, int out, int err,
                                              const WorkerLimits& limits);

}  // namespace cpprun::io
