// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The cpprund of a node whose job meets by etcd alone (launcher/plan/meeting_place.h), on a port of
// its choice. A child of cpprun supervises it: a cpprund that ends is reported and started again at
// the same port. Both end with cpprun; a cpprund that leads hands over first.

#include <sys/types.h>

#include "launcher/agent/io/preparation.h"
#include "launcher/endpoint.h"
#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

class OwnDaemon {
 public:
  // Forks; to be called before there is an event loop, a thread or a watchdog. Comes back when it
  // is met at place(), or why it is not.
  static Result<OwnDaemon> start(const RunInputs& inputs);

  OwnDaemon(OwnDaemon&& other) noexcept;
  OwnDaemon& operator=(OwnDaemon&&) = delete;
  // Ends it, as end() does.
  ~OwnDaemon();

  const Endpoint& place() const { return place_; }
  int pid() const { return pid_; }  // of the supervisor
  // It hands over, if it leads, and ends; for so long as that takes, which is not long.
  void end();

 private:
  OwnDaemon(pid_t pid, Endpoint place);
  void signal(int signal) const;

  pid_t pid_;
  FileDescriptor process_;  // none on a kernel without pidfds
  Endpoint place_;
};

}  // namespace cpprun::io
