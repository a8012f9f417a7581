// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Starts one process as cheaply as the kernel allows. The child shares our memory until it executes
// its program, so nothing is copied. It reports its progress in that same memory.

#include <sys/resource.h>

#include <optional>
#include <tl/expected.hpp>
#include <vector>

#include "launcher/plan/plan.h"
#include "launcher/workers/spawn.h"

namespace cpprun::io {

struct Child {
  int pid = 0;
  int pidfd = -1;  // the caller must close it; -1 if the kernel or a sandbox provides none
};

// The signals that this process handles or ignores now.
std::vector<int> changed_signals();

// What every worker starts with, whatever its spec says.
struct WorkerLimits {
  std::optional<rlimit> open_files;  // none: ours
  std::optional<WorkerMark> mark;    // identifies it and its descendants
  std::optional<int> niceness;       // none: ours
  // Lets cpprun and its helper processes ptrace it where Yama allows that only to its ancestors.
  bool is_traceable = false;
  Environment inherited;  // overridden by the spec's variables
  // The signals reset to their defaults. Determined once: there are 64 signals and many workers.
  std::vector<int> signals = changed_signals();
};

// `out` and `err` are descriptors for the worker's streams, or -1 if the spec alone decides. The
// child has its own session and group, is killed when we exit, and inherits only stdin.
tl::expected<Child, SpawnError> spawn_process(const WorkerSpec& spec, int out, int err,
                                              const WorkerLimits& limits);

}  // namespace cpprun::io
