// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The stores of the jobs of a simulated coordinator when they are local to each node: the real
// ConnectionSet and StoreRoutes in front of the coordinator's real stores. CoordinatorServer uses
// sockets; here there are simulated links, and the loopback of the hosting node.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/coordinator/io/node_streams.h"
#include "rendezvous/coordinator/io/store_logs.h"
#include "tests/sim/loopback.h"
#include "tests/sim/universe.h"

namespace cpprun::sim {

class HostedStores {
 public:
  struct Hooks {
    std::function<Coordinator*()> coordinator;  // null: none
    std::function<bool(LinkId)> has_room;
    std::function<void(LinkId, std::string_view frame)> send;
    std::function<void(const std::string& job)> asked;  // a worker has used its store
    // The number of a job and its sealed round; nothing: a job that is not judged.
    std::function<std::optional<std::pair<int, RoundId>>(const std::string& job)> round_of;
    // This coordinator is in force: there is no newer leader.
    std::function<bool()> is_in_force;
    std::function<TimePoint()> now;
    std::function<TimePoint(TimePoint)> truth;  // converts a time of that clock to true time
  };
  HostedStores(Universe& universe, Program& program, Hooks hooks);
  ~HostedStores();

  // A new coordinator, which hosts only that job, or none yet. Its stores are logged to `keeper`;
  // null: nowhere.
  void begin(const std::optional<std::string>& only, LogKeeper* keeper);
  void end();

  void open(const std::string& job);
  void reset(const std::string& job, const std::string& reason);
  void close(const std::string& job, const std::string& reason);

  // --- replicas, while there is another leader (hosted_replicas.cpp) ---
  Result<void> begin_replica(const std::string& job, RoundNumber round);
  Result<void> add_to_replica(const std::string& job, std::string_view bytes);
  void replica_is_whole(const std::string& job);
  void end_replica(const std::string& job);
  void end_replicas(const std::map<std::string, std::string>& but_of);
  bool has_replica(const std::string& job) const;
  bool has_whole_replica(const std::string& job, RoundNumber round) const;
  // Resumes with the replica when the coordinator has the job.
  void restore_replica(const std::string& job);
  // The coordinator is about to lose the job: its store stays as a replica.
  void keep_as_replica(const std::string& job);
  void leave_logs();
  // Valid while stores are served.
  StoreLogs& logs();

  // --- links ---
  std::string hear(LinkId link, const std::string& address, std::string_view frame);
  void go_on(LinkId link);
  void forget(LinkId link);

  // A worker on the machine of the hosted job's coordinator has connected.
  void accept(const std::string& job, const std::shared_ptr<Loopback>& worker);

  // Nothing that has arrived waits to be processed.
  bool is_quiet() const { return !is_turning_; }

 private:
  class Host;
  class Local;
  struct Replica;
  struct Job {
    std::unique_ptr<Host> host;
    ListenerId listener{};
    ListenerId local{};  // for workers of this machine
    std::optional<std::pair<int, RoundId>> round = {};
  };
  struct Served;  // what a process loses when it ends

  StreamRoutes::Callbacks callbacks_of_routes();
  StoreLogs::Callbacks callbacks_of_logs();
  void listen(const std::string& job);
  void look();
  void turn();
  void arm();
  void examine();
  void show_stores();

  Universe& universe_;
  Program& program_;
  Hooks hooks_;
  std::uint64_t life_ = 0;
  std::unique_ptr<Served> served_;
  bool is_turning_ = false;
};

}  // namespace cpprun::sim
