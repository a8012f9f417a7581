// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/steadiness.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

namespace cpprun {

namespace {

// Well before whatever computes, and behind what the machine itself lives by.
constexpr int nice_wanted = -10;

}  // namespace

Steadiness hold_steady() {
  Steadiness got;
  // What is there already, some megabytes; a store that grows to gigabytes later is not held.
  got.locked = ::mlockall(MCL_CURRENT) == 0;
  errno = 0;
  const int now = ::getpriority(PRIO_PROCESS, 0);
  if (now == -1 && errno != 0) return got;
  got.raised = ::setpriority(PRIO_PROCESS, 0, std::min(now, nice_wanted)) == 0;
  return got;
}

}  // namespace cpprun
