// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The contest of one of several cpprunds in a simulated world: what ContestHost is to the real one.

#include <cstdint>
#include <functional>
#include <optional>

#include "proto/state_machine.h"
#include "rendezvous/etcd/contest.h"
#include "rendezvous/etcd/contest_events.h"
#include "tests/sim/etcd_host.h"
#include "tests/sim/machine_clock.h"
#include "tests/sim/program.h"
#include "tests/sim/universe.h"

namespace cpprun::sim {

class SimulatedContest : public Contestant {
 public:
  struct Place {
    Universe& universe;
    Program& program;
    const MachineClock& clock;
    EtcdHost& etcd;
    int daemon = 0;
  };
  SimulatedContest(Place place, ContestOptions options, Told told);

  void start() override;
  void tell(contest::Event event) override;
  const Contest& contest() const { return driver_.machine(); }

 private:
  void perform(const contest::Action& action);
  void ask(const contest::Ask& ask);
  void arm(std::optional<TimePoint> deadline);
  TimePoint now() const { return place_.clock.local(place_.universe.time.now()); }

  const Place place_;
  const Told told_;
  std::uint64_t timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  Driver<Contest> driver_;
};

}  // namespace cpprun::sim
