// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The stores of a simulated coordinator's jobs, where they are local to each node: the real
// ConnectionSet and StoreRoutes in front of the coordinator's real stores. What CoordinatorServer
// does with sockets is done here with simulated links, and with the loopback of the hosting node.

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
    std::function<Coordinator*()> coordinator;  // null: there is none
    std::function<bool(LinkId)> has_room;
    std::function<void(LinkId, std::string_view frame)> send;
    std::function<void(const std::string& job)> asked;  // a worker has spoken to its store
    // The number of a job, and its round that is sealed; nothing: of somebody whom nobody judges.
    std::function<std::optional<std::pair<int, RoundId>>(const std::string& job)> round_of;
    // What it does is what happens: nobody leads in its place.
    std::function<bool()> is_in_force;
    std::function<TimePoint()> now;
    std::function<TimePoint(TimePoint)> truth;  // of a time by that clock
  };
  HostedStores(Universe& universe, Program& program, Hooks hooks);
  ~HostedStores();

  // A new coordinator, which hosts that job alone, or none yet. What its stores are told is written
  // down there; null: nowhere.
  void begin(const std::optional<std::string>& only, LogKeeper* keeper);
  void end();

  void open(const std::string& job);
  void reset(const std::string& job, const std::string& reason);
  void close(const std::string& job, const std::string& reason);
  // What another coordinator has written down of it. A reason: that leads nowhere.
  std::string restore(const std::string& job, const std::string& log);

  // --- as one of several has them while another one leads (hosted_replicas.cpp) ---
  Result<void> begin_replica(const std::string& job, RoundNumber round);
  Result<void> add_to_replica(const std::string& job, std::string_view bytes);
  void replica_is_whole(const std::string& job);
  void end_replica(const std::string& job);
  void end_replicas(const std::map<std::string, std::string>& but_of);
  bool has_replica(const std::string& job) const;
  bool has_whole_replica(const std::string& job, RoundNumber round) const;
  // It goes on with that, where the coordinator has the job.
  void restore_replica(const std::string& job);
  // The coordinator is about to lose the job: what its store has stays.
  void keep_as_replica(const std::string& job);
  void leave_logs();
  // While it is there.
  StoreLogs& logs();

  // --- links ---
  std::string hear(LinkId link, const std::string& address, std::string_view frame);
  void go_on(LinkId link);
  void forget(LinkId link);

  // A worker of the machine of the hosted job's coordinator has connected.
  void accept(const std::string& job, const std::shared_ptr<Loopback>& worker);

  // Nothing of what has come waits to be looked at.
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
  struct Served;  // what a process has, and loses when it ends

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
