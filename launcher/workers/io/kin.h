// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Kin are the workers and everything they started, however many processes removed: they are what
// cpprun ends, and nothing else. Not kin: what cpprun inherited (a `tee` started by its shell, a
// sidecar), other processes of a container whose first process it is, and jobs that a worker
// submitted.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/workers/worker_mark.h"

namespace cpprun::io {

struct Kin {
  // Nothing where this system does not let us set or read it: then the token tells.
  std::optional<WorkerMark> mark;
  std::string token;  // what every worker's CPPRUN_NODE_TOKEN holds
};

// Of a run with this token and this random number.
Kin make_kin(const std::string& token, std::uint32_t random);

// Whether that process is kin. The mark can be read without blocking; without one, the token in its
// environment decides, for which the kernel may have to wait on the process.
bool is_kin(const Kin& kin, int pid);

// That process and those above it, up to the first one of the machine.
std::vector<int> line_of(int pid);

// Whether a process that carries the token is ours. A job that a worker submitted carries it too,
// but was started by somebody else's daemon; ours are below `owner`, or below the `heirs`, to whom
// the kernel gave them when cpprun was gone.
bool descends_from_worker(const Kin& kin, int pid, int owner, const std::vector<int>& heirs);

}  // namespace cpprun::io
