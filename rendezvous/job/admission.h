// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Whose workers may use a job's store: the machines of the round that runs. A machine is the
// addresses from which its agent has spoken, the one of its link and a few that it showed by
// speaking from them as well, and nothing that somebody says of it: a claim could let a stranger
// in, or whoever was given up. Only the agent in the coordinator's own process is believed, for it
// is asked which interfaces this very machine has; and loopback is admitted where one of the nodes
// is this machine. A node that was given up is fenced by this: once the next round is sealed its
// address is strange.
//
// Workers mostly reach the store at the address at which their agent reached the coordinator, and
// then the kernel gives both the same one as their own. Where the master's name has several
// addresses the agent speaks at each of them. docs/decisions.md says what this means behind a
// translation of addresses.

#include <string>
#include <unordered_set>

#include "proto/result.h"
#include "rendezvous/job/round.h"

namespace cpprun {

class Admission {
 public:
  // From here on the seated members, and nobody else.
  void follow(const Round& round);
  // The reason if that numeric address may not.
  Result<void> check(const std::string& address) const;

 private:
  std::unordered_set<std::string> admitted_;
  bool admits_loopback_ = false;
};

}  // namespace cpprun
