// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Two nodes of one job that both take themselves for its master wait for the others for ever, each
// for itself. A master whose address leads elsewhere asks there now and then, while it waits, who
// hosts: another one, or this very node, to which the address leads in a roundabout way.

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
