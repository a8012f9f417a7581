// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Runs of `py-spy dump`, which reads the Python stacks of another process without stopping it.
// Permission is that of process_vm_readv(2), the same as for ptrace(2).

#include <string>
#include <vector>

#include "launcher/hang/observation.h"
#include "proto/clock.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

class PySpyRuns {
 public:
  PySpyRuns() = default;
  PySpyRuns(const PySpyRuns&) = delete;
  PySpyRuns& operator=(const PySpyRuns&) = delete;
  // Kills those that still run.
  ~PySpyRuns();

  // `program` is a path. Does not wait.
  void start(const std::string& program, int target_pid);
  // Waits for all of them, until `deadline` at the latest; one answer for each, in order.
  std::vector<hang::Answer> finish(TimePoint deadline);

 private:
  struct Run {
    int pid = 0;  // 0: not started, or reaped
    FileDescriptor out;
    FileDescriptor err;
    std::string text = {};
    std::string error = {};
  };

  static bool read_some(FileDescriptor& from, std::string& text);
  static hang::Answer answer_of(Run& run);

  std::vector<Run> runs_;
};

}  // namespace cpprun::io
