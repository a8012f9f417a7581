// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the kernel's log says from now on, where this process may read it (/dev/kmsg): a process
// that was ended for memory, the library in which one crashed, a GPU in trouble.

#include <deque>
#include <string>
#include <vector>

#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

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

}  // namespace cpprun::io
