// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One of several cpprunds in a simulated world: the real ReplicaController with its
// ReplicationLeader and ReplicationFollower, beside a simulated coordinator, on its own machine.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/daemon/io/replica_controller.h"
#include "tests/sim/coordinator_host.h"
#include "tests/sim/daemon_links.h"
#include "tests/sim/etcd_host.h"
#include "tests/sim/machine_clock.h"
#include "tests/sim/simulated_election.h"
#include "tests/sim/universe.h"

namespace cpprun::sim {

class Member {
 public:
  Member(Universe& universe, int number);
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  void serve(Network& network, DaemonLinks& links, EtcdHost& etcd);
  int number() const { return number_; }
  Program& program() { return program_; }
  MachineClock& clock() { return clock_; }
  CoordinatorHost& host() { return host_; }
  // Null: no process.
  ReplicaController* set() { return set_.get(); }
  // It considers itself the leader, and there is no leader in a later epoch.
  bool leads() const;

  // A new process, which knows nothing.
  void begin();
  void end();
  // Reboots its machine, which restarts its clocks.
  void reboot();

 private:
  class SimulatedAlarm;
  SetPorts ports();
  EventLoop loop();
  ReplicaControllerOptions options();
  ReplicaController::Callbacks callbacks();

  Universe& universe_;
  const int number_;
  Program program_;
  MachineClock clock_;
  CoordinatorHost host_;
  DaemonLinks* links_ = nullptr;
  EtcdHost* etcd_ = nullptr;
  int lives_ = 0;
  std::string life_;  // the id of this life
  std::unique_ptr<ReplicaController> set_;
};

// "10.9.0.1" for the first.
std::string host_of_daemon(int daemon);

}  // namespace cpprun::sim
