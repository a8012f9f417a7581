// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A cpprun in a simulated world, the counterpart of Runtime.

#include <functional>
#include <optional>
#include <string>

#include "launcher/agent/agent.h"
#include "proto/state_machine.h"
#include "tests/sim/coordinator_host.h"
#include "tests/sim/machine_clock.h"
#include "tests/sim/network.h"
#include "tests/sim/node_port.h"
#include "tests/sim/universe.h"
#include "tests/sim/workers.h"

namespace cpprun::sim {

class Node {
 public:
  struct Hooks {
    std::function<void(const WorkerEnd&)> died;
    std::function<void()> ended;  // the process has ended, for whatever reason
    // The coordinator at that place; null: there has been no standby.
    std::function<CoordinatorHost*(int place)> coordinator_at;
    std::function<CoordinatorHost&()> stand_by;  // in this very process
    std::function<void(int place, const link::WhoHosts&)> ask;
  };
  Node(Universe& universe, int number, Hooks hooks);
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  int number() const { return number_; }
  Program& program() { return program_; }
  Workers& workers() { return workers_; }
  MachineClock& clock() { return clock_; }
  const ConnectionRef& connection() const { return connection_; }
  bool exited() const { return exit_.has_value(); }

  // The coordinator in this very process, if there is one.
  void host(CoordinatorHost* coordinator) { coordinator_ = coordinator; }
  void use(Network& network) { network_ = &network; }
  // The standby in this process becomes the leader.
  void lead();
  // That coordinator led in this process, lost leadership, and resumes.
  void lead_again(CoordinatorHost& coordinator);
  // Starts a new cpprun.
  void begin();
  void signalled(int signal);
  // Another program takes the place of its cpprun, unless that has an objection.
  void upgrade();
  void killed();        // SIGKILL
  void machine_died();  // power off
  void go_on(bool timers_first);
  // Called after a suspension: the clock has advanced.
  void wake();
  // The host of the coordinator may exit.
  void leave();

  // --- from the network, and from the coordinator in this process ---
  void post(Agent::Event event);
  void up(const ConnectionRef& connection);
  void heard(const ConnectionRef& connection, const Packet& packet);
  void down(const ConnectionRef& connection, const std::string& reason);
  // Its link has room for stream frames again.
  void has_room(const ConnectionRef& connection);

 private:
  Agent make_agent() const;
  void perform(const agent::Action& action);
  void say(const link::Message& message);
  std::shared_ptr<Loopback> connect_worker();
  bool is_calm(RoundId round) const;
  void hang_up(bool breaks = false);
  bool is_frozen() const;
  void read_progress();
  void observe_workers(const agent::ObserveWorkers& action);
  void examine(const Outcome& outcome);
  void exit(const events::JobEnded& last);
  void rest(std::optional<TimePoint> deadline);
  void arm(std::optional<TimePoint> deadline);
  void tell_watchdog();
  void notice_watchdog();
  void end_process();
  TimePoint now() const { return clock_.local(universe_.time.now()); }

  Universe& universe_;
  int number_;
  Hooks hooks_;
  MachineClock clock_;
  Program program_;
  NodePort port_;
  Workers workers_;
  Network* network_ = nullptr;
  CoordinatorHost* coordinator_ = nullptr;  // in this very process
  CoordinatorHost* standby_ = nullptr;      // also in this process, in case the leader is lost
  Driver<Agent> agent_;
  std::uint64_t life_ = 0;  // counts the cppruns on this machine
  ConnectionRef connection_;
  bool link_is_new_ = true;  // nothing was received on it: the seat is not confirmed
  int workers_connected_ = 0;
  std::optional<TimePoint> armed_;
  std::uint64_t timer_ = 0;
  std::optional<TimePoint> fence_;  // the watchdog's deadline, by the machine's clock
  std::uint64_t beats_ = 0;         // heartbeats of its workers
  bool watchdog_fired_ = false;     // the agent does not know it yet
  std::optional<events::JobEnded> exit_;
};

}  // namespace cpprun::sim
