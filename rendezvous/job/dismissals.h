// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The agents that were asked to leave a job. One whose link broke before it heard so asks for a
// seat as if nothing had been: it is told again. A new cpprun on the same machine is another agent.

#include <deque>
#include <string>

#include "proto/link/message.h"

namespace cpprun {

class Dismissals {
 public:
  void add(const link::Join& agent, std::string why);
  // Why that agent was asked to leave; null: it was not, or very many were since.
  const std::string* find(const link::Join& agent) const;

 private:
  struct Entry {
    std::string host;
    int pid = 0;
    std::uint32_t agent = 0;
    std::string why;
  };
  std::deque<Entry> entries_;  // the last bounds::dismissals_max
};

}  // namespace cpprun
