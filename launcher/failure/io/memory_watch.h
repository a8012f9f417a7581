// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How often the kernel has killed a process for want of memory: in this process's control group, of
// either version, and on the whole machine, which is all that an unprivileged process may read
// everywhere. The numbers only grow, so two readings are compared.

#include <string>

namespace cpprun::io {

struct OomKills {
  long in_group = 0;
  long on_machine = 0;  // 0 where the group's own number is there
};

OomKills oom_kills();

// The memory limit of the control group in words, "4.0 GiB"; empty where there is none.
std::string memory_limit();

}  // namespace cpprun::io
