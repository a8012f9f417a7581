// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Writes a file from a process of its own. A write to a file never reports "not now": if its disk
// hangs, so does the writer, and heartbeats and signals with it. So words for a file go through a
// pipe, which does report it, and only the process at its other end waits.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>

#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/side_processes.h"

namespace cpprun {

class Scribe {
 public:
  struct Callbacks {
    // Something could not be written, and is lost; said once until something can be again.
    std::function<void(int error_number)> trouble;
    std::function<void()> ended;  // after `end`: everything is in the file
  };

  // Nothing where the machine refuses a pipe or a process. `file` stays the caller's.
  static std::unique_ptr<Scribe> begin(asio::io_context& context, SideProcesses& side, int file,
                                       Callbacks callbacks);
  // Nothing, too, where it is no file on a disk.
  static std::unique_ptr<Scribe> begin_for_file(asio::io_context& context, SideProcesses& side,
                                                int descriptor, Callbacks callbacks);
  Scribe(const Scribe&) = delete;
  Scribe& operator=(const Scribe&) = delete;

  // What is written here reaches the file.
  int pipe() const { return words_.get(); }
  // Nothing more comes. Whoever else holds the pipe open lets go of it first.
  void end() { words_.reset(); }
  // Without an event loop: waits until everything is in the file, but no longer.
  void finish(Duration patience);

 private:
  Scribe(asio::io_context& context, FileDescriptor words, FileDescriptor news, Callbacks callbacks);
  void listen();

  FileDescriptor words_;
  asio::posix::stream_descriptor news_;  // errnos from the process; it closes as the last thing
  Callbacks callbacks_;
};

}  // namespace cpprun
