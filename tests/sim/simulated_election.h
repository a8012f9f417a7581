// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The election of one of several cpprunds in a simulated world, the counterpart of ElectionDriver.

#include <cstdint>
#include <functional>
#include <optional>

#include "proto/state_machine.h"
#include "rendezvous/etcd/election_events.h"
#include "rendezvous/etcd/leader_election.h"
#include "tests/sim/etcd_host.h"
#include "tests/sim/machine_clock.h"
#include "tests/sim/program.h"
#include "tests/sim/universe.h"

namespace cpprun::sim {

class SimulatedElection : public Elector {
 public:
  struct Context {
    Universe& universe;
    Program& program;
    const MachineClock& clock;
    EtcdHost& etcd;
    int daemon = 0;
  };
  SimulatedElection(Context place, ElectionOptions options, Told callback);

  void start() override;
  void tell(election::Event event) override;
  const LeaderElection& election() const { return driver_.machine(); }

 private:
  void perform(const election::Action& action);
  void ask(const election::Ask& ask);
  void arm(std::optional<TimePoint> deadline);
  TimePoint now() const { return place_.clock.local(place_.universe.time.now()); }

  const Context place_;
  const Told callback_;
  std::uint64_t timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  Driver<LeaderElection> driver_;
};

}  // namespace cpprun::sim
