// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Whoever reaches the coordinator's port and lies about everything that a frame can say. They have
// links of their own and no workers, and the clusters' network carries nothing of theirs: what they
// say arrives when they say it, which is the worst that could happen.
//
//   a stranger   knows of no job, or knows a name and not the terms
//   a liar       is the agent of a job of its own, has its seat, and lies from there
//
// No lie of theirs may change anything for a job of somebody else: `Campaign` plays each such run
// once more without them, and whatever the nodes were told has to be the same, word for word.

#include <memory>
#include <string>

#include "tests/sim/coordinator_host.h"
#include "tests/sim/random.h"
#include "tests/sim/universe.h"

namespace cpprun::sim {

class UnidentifiedConnections {
 public:
  UnidentifiedConnections(Universe& universe, CoordinatorHost& coordinator)
      : universe_(universe), coordinator_(coordinator) {}

  // One of them comes, for so long.
  void come(const Fault& fault);

 private:
  struct Life {
    Random random;
    bool is_liar = false;
    std::string address;
    std::string job;  // a liar's own
    TimePoint until{};
    LinkId link{};
  };
  void step(const std::shared_ptr<Life>& life);
  void speak(Life& life);
  link::Join join_of(Life& life);
  link::WhoHosts introduction_of(Life& life) const;
  link::Message lie_of(Random& random) const;

  Universe& universe_;
  CoordinatorHost& coordinator_;
  int came_ = 0;
};

}  // namespace cpprun::sim
