// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of ending processes.

#include <chrono>
#include <cstddef>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// How long a process may take to die of SIGKILL, and then its group or descendants to vanish. What
// takes longer is stuck in the kernel (a lost disk, a hung driver): it is reported and given up.
inline constexpr auto kill_timeout = 10s;
// Polling of a killed group that still exists: the first interval, and the longest.
inline constexpr auto sweep_look_first = 200us;
inline constexpr auto sweep_look_max = 20ms;
// How long cpprun finally waits for the processes that it has killed.
inline constexpr auto last_reap_wait = 1s;
// Passes in which the watchdog searches for processes of a job whose cpprun is gone, and the pause
// between them: ten seconds in all, like kill_timeout.
inline constexpr int watchdog_looks_max = 1000;
inline constexpr auto watchdog_pause = 10ms;
// A child of the watchdog that takes this long for one process is blocked by it and abandoned. The
// search ends after so many abandoned children.
inline constexpr auto watchdog_child_timeout = 500ms;
inline constexpr int watchdog_children_max = 16;
// Connections of workers that change rounds: one for each, and those of workers that just ended.
inline constexpr std::size_t round_clients_max = 4096;
// Process groups that a watchdog can track: twice the largest number of workers per machine.
inline constexpr std::size_t watchdog_groups_max = 4096;
// Bytes of a process's environment searched for the token; this is execve's default limit.
inline constexpr std::size_t environ_bytes_max = 8 * 1024 * 1024;

}  // namespace cpprun::bounds
