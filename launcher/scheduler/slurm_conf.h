// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What Slurm's configuration says of how it ends jobs. Source: slurm.conf(5).

#include <chrono>
#include <optional>
#include <string_view>

#include "launcher/scheduler/scheduler_facts.h"

namespace cpprun {

// KillWait: the time between TERM and KILL, in whole seconds. Nothing outside of Slurm's jobs, and
// where the configuration is not on this node or leaves it out.
std::optional<Said<std::chrono::seconds>> slurm_kill_wait(const Environment& environment,
                                                          const TextFile& read_file);

// Its value in such a file. Names are written in any case.
std::optional<int> kill_wait_in(std::string_view configuration);

}  // namespace cpprun
