// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where evidence comes from: the kernel's log, its kills for want of memory, a process before
// SIGKILL, and a file that could not be executed.

#include <deque>
#include <string>
#include <vector>

#include "launcher/failure/evidence.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

// What the kernel's log says from now on, where this process may read it (/dev/kmsg): a process
// that was ended for memory, the library in which one crashed, a GPU in trouble.
class KernelLog {
 public:
  // Begins at the end of the log. Reads nothing at all if that is not permitted.
  KernelLog();

  // The lines so far that name that process, or a device's fault; the oldest first. Waits for
  // nothing: what the kernel writes later comes with the next call.
  std::vector<std::string> about(int pid);

 private:
  void take_what_is_new();

  FileDescriptor log_;
  std::deque<std::string> lines_;
};

// How often the kernel has killed a process for want of memory: in this process's control group, of
// either version, and on the whole machine, which is all that an unprivileged process may read
// everywhere. The numbers only grow, so two readings are compared.
struct OomKills {
  long in_group = 0;
  long on_machine = 0;  // 0 where the group's own number is there
};

OomKills oom_kills();

// The memory limit of the control group in words, "4.0 GiB"; empty where there is none.
std::string memory_limit();

// Looks at a worker that is about to be sent KILL, because afterwards nobody can.
// What the leader of that group was doing, and the first few of those below it; in words. Empty
// where it is gone by now. Reads a handful of files in /proc, waits for nothing.
std::string process_snapshot(int pid);

// Why the kernel would not execute a file: one errno stands for four different mistakes.
struct ProgramFile {
  ExecFault fault = ExecFault::none;
  std::string detail;  // the interpreter that is missing, the processor it was built for
};

ProgramFile look_at_program(const std::string& path);

}  // namespace cpprun::io
