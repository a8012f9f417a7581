// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Which machines may use a job's store: those of the running round. A machine is known by the
// addresses from which its agent has spoken, its link's and a few that the agent showed by speaking
// from them too, and never by what anybody claims: a claim could let in a stranger, or a node that
// was given up. Only the agent in the coordinator's own process is believed about this machine's
// interfaces, and loopback is admitted if one of the nodes is this machine. This fences a node that
// was given up: once the next round is sealed, its address is a stranger's.
//
// Workers usually reach the store at the address at which their agent reached the coordinator, so
// the kernel gives both the same source address. If the master's name has several addresses, the
// agent speaks at each of them. docs/decisions.md explains what this means behind NAT.

#include <string>
#include <unordered_set>

#include "proto/result.h"
#include "rendezvous/job/round.h"

namespace cpprun {

class Admission {
 public:
  // From here on, the seated members and nobody else.
  void follow(const Round& round);
  // Fails, with the reason, if that numeric address is not admitted.
  Result<void> check(const std::string& address) const;

 private:
  std::unordered_set<std::string> admitted_;
  bool admits_loopback_ = false;
};

}  // namespace cpprun
