// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A whole cluster in one process: the real Coordinator, Agents and Supervisors, with a simulated
// network, processes and clocks. All events are on one timeline; the same scenario gives the same
// run, byte for byte. The judge checks every step.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/coordinator_host.h"
#include "tests/sim/members.h"
#include "tests/sim/network.h"
#include "tests/sim/node.h"
#include "tests/sim/unidentified_connections.h"
#include "tests/sim/universe.h"

namespace cpprun::sim {

class World {
 public:
  explicit World(Scenario scenario, bool traced = false);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Runs to the end; returns the first broken promise as a sentence, or nothing.
  std::optional<std::string> run();

  const Scenario& scenario() const { return universe_.scenario; }
  const std::string& transcript() const { return universe_.trace.text(); }
  std::size_t steps() const { return universe_.time.steps(); }
  Duration simulated() const { return universe_.time.now().time_since_epoch(); }
  const std::string& story() const { return universe_.judge.story(); }
  std::optional<int> exit_code_of(int node) const { return universe_.judge.exit_code_of(node); }
  std::uint64_t store_answers() const { return universe_.stores.answers(); }
  int restarts_of(int job = 0) const { return universe_.judge.restarts_of(job); }
  int rounds_of(int job = 0) const { return universe_.judge.rounds_of(job); }

 private:
  NetworkEnds ends();
  void build_nodes();
  void plan();
  void commit(const Fault& fault);
  void commit_to_worker(const Fault& fault, Node& node);
  void commit_to_agent(const Fault& fault, Node& node);
  void commit_to_network(const Fault& fault, Node& node);
  void commit_to_coordinator(const Fault& fault);
  void commit_order(const Fault& fault, int node);
  void begin(Node& node);
  void stop(Node& node, const Fault& fault);
  void suspend_all(const Fault& fault);
  void restart_coordinator(const Fault& fault);
  void begin_coordinator_in(Duration while_away, bool with_records);
  void end_coordinator(bool machine_too);
  void worker_died(const WorkerEnd& end);
  void host_is_done(int place);
  CoordinatorHost* coordinator_at(int place);
  Program& coordinators_program(int place);
  CoordinatorHost* leading();
  CoordinatorHost& stand_by(int node);
  void ask(int node, int place, const link::WhoHosts& question);
  bool is_led() const;
  bool is_hosted();
  bool may_miss_its_leader() const;
  bool will_take_over();
  void end_standby(int node);
  void node_ended(const Node& node);
  bool any_node_runs() const { return running_ > 0 || planned_ > 0; }
  Node& node(int number) { return *nodes_[static_cast<std::size_t>(number)]; }

  Universe universe_;
  MachineClock coordinator_clock_;  // of a daemon's machine
  Program daemon_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::optional<CoordinatorHost> coordinator_;
  std::map<int, std::unique_ptr<CoordinatorHost>> standbys_;  // by node
  std::vector<std::unique_ptr<CoordinatorHost>> gone_standbys_;
  std::optional<Network> network_;
  std::optional<Members> members_;  // if there are several cpprunds
  std::optional<UnidentifiedConnections> unidentified_connections_;
  std::set<int> resets_;           // nodes whose link is reset after Drained
  bool master_restarted_ = false;  // the master has, while there was another leader
  int running_ = 0;                // running cpprun processes
  int planned_ = 0;                // future ones
};

}  // namespace cpprun::sim
