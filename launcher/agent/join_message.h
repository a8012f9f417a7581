// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What an agent says of itself when it asks for a seat.

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/config.h"
#include "launcher/plan/interfaces.h"
#include "launcher/plan/plan.h"
#include "proto/ids.h"
#include "proto/link/message.h"

namespace cpprun {

// What the agent must know of its machine, all of it known before it starts.
struct AgentFacts {
  std::string host;
  int pid = 0;
  std::uint32_t agent = 0;         // random, as link::Join has it
  bool hosts_coordinator = false;  // then the link is a call within this process and cannot break
  ResolvedProgram program;
  NodeFacts node;                            // its `sockets` are filled in once the link is up
  std::vector<NetworkInterface> interfaces;  // of this machine
};

struct JoinState {
  RoundNumber after{};      // the last round it took part in, 0 for a newcomer
  bool idle = false;        // nobody of that round is alive here
  bool done = false;        // because all of them ended with 0
  link::AgentTime sent{};   // now, by our clock
  RoundNumber vote{};       // as link::Join has it
  std::uint64_t epoch = 0;  // as well
  bool fresh = false;       // it has never had a seat
};

// Names as many of this machine's addresses as its frame has room for.
link::Join join_message(const Config& config, const AgentFacts& facts, const JoinState& state);

}  // namespace cpprun
