// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Clients that reach the coordinator's port and lie about everything in a frame. They have their
// own links and no workers, and do not use the simulated network: a message arrives at once, which
// is the worst case.
//
//   a stranger   knows no job, or knows a name and not the terms
//   a liar       is the agent of a job of its own, has its seat, and lies from there
//
// No lie may change anything for another job: `Campaign` plays each such run again without these
// clients, and all messages to the nodes have to be the same.

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

  // One of them connects, for the duration of the fault.
  void come(const Fault& fault);

 private:
  struct Life {
    Random random;
    bool is_liar = false;
    std::string address;
    std::string job;  // a liar's own job
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
