// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Who is a worker, or was started by one, however many processes ago: they are what cpprun ends,
// and nobody else. What cpprun only inherited (a `tee` that its shell had started, a side-car),
// what came to it as the first process of a container, and jobs that a worker has submitted are not
// kin.

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

// Whether that process is kin. By its mark, which blocks nobody; without one by the token in its
// environment, for which the kernel may have to wait until the process lets it be read.
bool is_kin(const Kin& kin, int pid);

// That process and those above it, up to the first one of the machine.
std::vector<int> line_of(int pid);

// Whether a process that carries the token is ours as well. A job that was submitted from a worker
// carries it too, but was started by somebody else's daemon; ours are below `owner`, or below those
// to whom the kernel gave them when cpprun was gone: the `heirs`.
bool descends_from_worker(const Kin& kin, int pid, int owner, const std::vector<int>& heirs);

}  // namespace cpprun::io
