// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The agents that were asked to leave a job. One whose link broke before it heard so asks for a
// seat as if nothing had been: it is told again. A new cpprun on the same machine is another agent.

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "proto/link/message.h"

namespace cpprun {

class Dismissals {
 public:
  struct Entry {
    std::string host;
    int pid = 0;
    std::uint32_t agent = 0;
    std::string why = {};
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  Dismissals() = default;
  // As they were kept, the oldest first.
  explicit Dismissals(const std::vector<Entry>& entries)
      : entries_(entries.begin(), entries.end()) {}
  std::vector<Entry> entries() const { return {entries_.begin(), entries_.end()}; }

  void add(const link::Join& agent, std::string why);
  // Why that agent was asked to leave; null: it was not, or very many were since.
  const std::string* find(const link::Join& agent) const;

 private:
  std::deque<Entry> entries_;  // the last bounds::dismissals_max
};

}  // namespace cpprun
