// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The cpprund of a node whose job meets by etcd alone (launcher/plan/etcd_meeting.h): a child of
// cpprun, on a port of its choice, that ends with it. Where it leads, it hands over first.

#include <sys/types.h>

#include "launcher/agent/io/run_inputs.h"
#include "launcher/endpoint.h"
#include "proto/result.h"

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
  // It hands over, if it leads, and ends; for so long as that takes, which is not long.
  void end();

 private:
  OwnDaemon(pid_t pid, Endpoint place) : pid_(pid), place_(std::move(place)) {}

  pid_t pid_;
  Endpoint place_;
};

}  // namespace cpprun::io
