// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A pseudo-terminal for a worker, where cpprun's own stderr is a terminal: the worker keeps its
// colours, its progress bars and its buffering, and what it writes is read here.

#include <optional>

#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

struct WorkerTerminal {
  FileDescriptor ours;    // what the worker writes is read here, every byte as it was
  FileDescriptor worker;  // not its controlling terminal
};

// With the settings and the size of the terminal `like`. Nothing where none can be had: there is no
// /dev/ptmx, or as many are in use as may be.
std::optional<WorkerTerminal> open_worker_terminal(int like);

void copy_terminal_size(int from, int to);

}  // namespace cpprun::io
