// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The cpprund of a node whose job uses etcd only (launcher/plan/meeting_place.h). It picks its own
// port. A child of cpprun supervises it: a cpprund that exits is reported and restarted on the same
// port. Both exit with cpprun; a cpprund that is the leader transfers leadership first.

#include <sys/types.h>

#include "launcher/agent/io/preparation.h"
#include "proto/result.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

class LocalCpprund {
 public:
  // Forks, so call it before there is an event loop, a thread or a watchdog. Returns once place()
  // is reachable, or why it is not.
  static Result<LocalCpprund> start(const RunInputs& inputs);

  LocalCpprund(LocalCpprund&& other) noexcept;
  LocalCpprund& operator=(LocalCpprund&&) = delete;
  // Stops it, like end().
  ~LocalCpprund();

  const Endpoint& place() const { return place_; }
  int pid() const { return pid_; }  // of the supervisor
  // Stops the cpprund. If it is the leader, it transfers leadership first. Blocks for that time,
  // which is short.
  void end();

 private:
  LocalCpprund(pid_t pid, Endpoint place);
  void signal(int signal) const;

  pid_t pid_;
  FileDescriptor process_;  // invalid on a kernel without pidfds
  Endpoint place_;
};

}  // namespace cpprun::io
