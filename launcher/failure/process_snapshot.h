// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a process was doing at one moment, from /proc, and the same in words: taken of a worker that
// ignored the signal to end, before it is sent KILL.

#include <optional>
#include <string>
#include <vector>

namespace cpprun {

struct ProcessSnapshot {
  int pid = 0;
  std::string name;                // "python3"
  char state = '?';                // as in ps: R S D T Z
  std::string wait_channel;        // the kernel's function it sleeps in; empty: not known
  std::optional<int> system_call;  // its number on this machine; nothing: none, or not readable
  int threads = 1;
  std::vector<std::string> kernel_stack;  // innermost first; empty: not readable
};

// "train (pid 42) was in state S (sleeping), in futex_wait_queue, system call futex, 8 threads".
std::string to_text(const ProcessSnapshot& look);

// "futex"; the number where nobody here knows its name.
std::string system_call_name(int number);

// "sleeping in the kernel and not to be disturbed: …"
std::string state_text(char state);

}  // namespace cpprun
