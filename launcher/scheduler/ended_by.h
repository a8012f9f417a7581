// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Who ends a job, as far as a signal, its sender and the environment tell: a scheduler, a
// container's runtime, systemd, a terminal that closed.

#include <string>

#include "proto/clock.h"
#include "proto/environment.h"

namespace cpprun {

struct SignalSender {
  int pid = 0;             // 0: a process outside of our container; or the kernel
  bool is_kernel = false;  // as for Ctrl-C, and for a terminal that closes
  std::string name = {};   // of that process; empty: it is gone, or cannot be seen
  friend bool operator==(const SignalSender&, const SignalSender&) = default;
};

// "pid 812 (slurmstepd)"; empty where no process of ours has sent it.
std::string to_text(const SignalSender& sender);

struct EndedBy {
  std::string who = {};   // a clause: "Slurm ended the job (time limit)"; empty: not known
  std::string hint = {};  // how to have it otherwise
  friend bool operator==(const EndedBy&, const EndedBy&) = default;
};

EndedBy ended_by(int signal, const SignalSender& sender, const Environment& environment,
                 WallTime now);

}  // namespace cpprun
