// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The links between the cpprunds of a simulated world, as TCP shows them: messages arrive in order
// and stall during a cut; a process that ends resets its links, a machine without power goes
// silent.

#include <functional>
#include <memory>
#include <vector>

#include "proto/link/message.h"
#include "rendezvous/io/link_end.h"
#include "tests/sim/network.h"
#include "tests/sim/universe.h"

namespace cpprun::sim {

class DaemonLinks {
 public:
  struct Ends {
    std::function<Program&(int daemon)> program;
    // A standby has connected.
    std::function<void(int at, const std::shared_ptr<LinkEnd>&, const link::Follow&)> adopt;
  };
  DaemonLinks(Universe& universe, Network& network, Ends ends);
  ~DaemonLinks();

  std::unique_ptr<DialledLink> link_to(int from, int to, DialCallbacks callbacks);
  // Its process has ended.
  void ended(int daemon);
  // Cuts the link from one to the other until then.
  void cut(int from, int to, TimePoint until);

 private:
  class Wire;
  class Dialled;
  Duration delay(int from, int to);
  TimePoint& cut_until(int from, int to);

  Universe& universe_;
  Network& network_;
  Ends ends_;
  Random random_;
  int daemons_;
  std::vector<TimePoint> cuts_;  // by pair
  std::vector<std::weak_ptr<Wire>> wires_;
};

}  // namespace cpprun::sim
