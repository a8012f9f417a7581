// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Two nodes of one job that both believe they are its master wait for ever, each for the other. So
// while it waits, a master whose address leads elsewhere asks there now and then who hosts: another
// master, or this very node, reached by a roundabout way.

#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/join_message.h"
#include "launcher/config.h"
#include "proto/clock.h"
#include "proto/link/message.h"

namespace cpprun {

class RivalMaster {
 public:
  // Nothing is asked where all of the master's addresses are this machine's.
  void look_at(TimePoint now, std::vector<std::string> addresses);
  void stop() { due_.reset(); }
  std::optional<TimePoint> next_deadline() const { return due_; }
  // The addresses at which to ask now; none where it is not time.
  std::vector<std::string> take_due(TimePoint now);

 private:
  std::vector<std::string> addresses_;
  std::optional<TimePoint> due_;
};

struct RivalVerdict {
  std::string sentence;  // empty: there is no rival
  bool same_job = false;
};

// What somebody's answer means for this node.
RivalVerdict judge_rival(const Config& config, const AgentFacts& facts, const link::Hosts& answer);

}  // namespace cpprun
