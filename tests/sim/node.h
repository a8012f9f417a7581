// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A cpprun at work in a simulated world: what Runtime is to the real one.

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
    std::function<void()> ended;  // the process is gone, however it came to that
    // The coordinator there; null: nobody has stood by there.
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

  // The coordinator in this very process, where there is one.
  void host(CoordinatorHost* coordinator) { coordinator_ = coordinator; }
  void use(Network& network) { network_ = &network; }
  // The one that stood by in this process leads.
  void lead();
  // That one had led in this process, had lost that, and resumes.
  void lead_again(CoordinatorHost& coordinator);
  // A new cpprun begins.
  void begin();
  void signalled(int signal);
  void killed();        // SIGKILL
  void machine_died();  // power off
  void go_on(bool timers_first);
  // Its clock shows a later time than it did.
  void wake();
  // The host of the coordinator has stayed long enough.
  void leave();

  // --- from the network, and from the coordinator in this process ---
  void post(Agent::Event event);
  void up(const ConnectionRef& connection);
  void heard(const ConnectionRef& connection, const Packet& packet);
  void down(const ConnectionRef& connection, const std::string& reason);
  // Its link takes frames of streams again.
  void has_room(const ConnectionRef& connection);

 private:
  void perform(const agent::Action& action);
  void say(const link::Message& message);
  std::shared_ptr<Loopback> connect_worker();
  bool is_calm(RoundId round) const;
  void hang_up(bool breaks = false);
  void examine(const Outcome& outcome);
  void exit(const agent::Exit& last);
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
  CoordinatorHost* standby_ = nullptr;      // so is that, for the case that another is lost
  Driver<Agent> agent_;
  std::uint64_t life_ = 0;  // which cpprun on this machine it is
  ConnectionRef connection_;
  bool link_is_new_ = true;  // nothing was heard on it: whether this node has its seat is not known
  int workers_connected_ = 0;
  std::optional<TimePoint> armed_;
  std::uint64_t timer_ = 0;
  std::optional<TimePoint> fence_;  // what the watchdog was told last, by the machine's clock
  bool watchdog_fired_ = false;     // and the agent does not know it yet
  std::optional<agent::Exit> exit_;
};

}  // namespace cpprun::sim
