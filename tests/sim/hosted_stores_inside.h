// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The parts of a HostedStores, only for its own files.

#include <fmt/format.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/coordinator/io/store_logs.h"
#include "tests/sim/hosted_stores.h"

namespace cpprun::sim {

// The owner of a job's store.
class HostedStores::Host : public StoreHost {
 public:
  Host(HostedStores& stores, std::string job) : stores_(stores), job_(std::move(job)) {}
  Result<void> admit(const PeerAddress&) override { return failure("no client uses a socket"); }
  Result<void> admit_stream(const PeerAddress&) override {
    stores_.hooks_.asked(job_);
    return {};
  }
  Store& store() override {
    if (replica_ != nullptr) return *replica_;
    Coordinator* const coordinator = stores_.hooks_.coordinator();
    return coordinator != nullptr && coordinator->knows(job_) ? coordinator->store(job_)
                                                              : left_behind_;
  }
  // Uses the replica while the coordinator is not the leader; null: the coordinator's store.
  void keep(Store* replica) { replica_ = replica; }
  void adopt_link(FileDescriptor, PeerAddress, std::string) override {}
  void note(Note note) override {
    stores_.universe_.trace.line(stores_.universe_.time.now(), "store of {}: {}", job_, note.text);
    stores_.universe_.judge.must(
        !note.text.starts_with("closed: unknown") && !note.text.starts_with("closed: malformed"),
        fmt::format("the store of {} did not understand a worker: {}", job_, note.text));
  }

 private:
  HostedStores& stores_;
  std::string job_;
  Store* replica_ = nullptr;
  Store left_behind_;
};

// A job's store as another process has it, or as this one had it.
struct HostedStores::Replica {
  RoundNumber round{};
  Store store = {};
  std::unique_ptr<StoreReplay> replay = {};  // null: this process has decided until now
  bool is_whole = false;
};

struct HostedStores::Served {
  explicit Served(HostedStores& stores)
      : routes(connections, stores.callbacks_of_routes(), stores.universe_.scenario.stores->window),
        logs(connections, routes, stores.callbacks_of_logs()) {}

  std::map<std::string, Job> jobs;
  std::map<std::string, std::unique_ptr<Replica>> replicas;  // Invariant: each has its job.
  ConnectionSet connections;
  std::vector<std::shared_ptr<Loopback>> locals;  // the open ones
  std::deque<std::function<void()>> soon;
  std::optional<TimePoint> armed;  // true time
  StreamRoutes routes;
  StoreLogs logs;
};

}  // namespace cpprun::sim
