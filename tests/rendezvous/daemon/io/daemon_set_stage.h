// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One of several cpprunds with a real ReplicaController; the test plays etcd, the coordinator and
// the peers.

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/daemon/io/replica_controller.h"
#include "tests/rendezvous/daemon/io/standby_stage.h"

namespace cpprun::test {

// Records the events that it receives; the test sends the actions.
struct StagedElection : Elector {
  explicit StagedElection(Told its) : told(std::move(its)) {}
  void start() override {}
  void tell(election::Event event) override {
    commands.push_back(std::move(event));
    if (answers_at_once) answers_at_once(commands.back());
  }
  template <class Event>
  std::vector<Event> all() const {
    std::vector<Event> found;
    for (const auto& each : commands) {
      if (const auto* const command = std::get_if<Event>(&each)) found.push_back(*command);
    }
    return found;
  }
  const Told told;
  std::function<void(const election::Event&)> answers_at_once;
  std::vector<election::Event> commands;
};

inline ReplicaControllerOptions options_with_etcd() {
  return {.name = "alpha#1",
          .cluster = "c",
          .place = "alpha:1",
          .version = "1",
          .etcd = EtcdAccess{.endpoints = {EtcdEndpoint{false, "etcd", 2379}}}};
}

struct StagedDaemon {
  StagedDaemon() : server(loop), set(ports(), server, options_with_etcd(), callbacks()) {
    CHECK(set.start().has_value());
  }
  void etcd_says(const election::Action& action) {
    election->told(action);
    loop.run_until_idle();
  }
  // Wins the election in etcd with a lease of two seconds.
  void win(etcd::Revision epoch = 5) {
    etcd_says(election::Found{});
    etcd_says(election::Leads{epoch, loop.now() + std::chrono::seconds(2)});
  }
  std::shared_ptr<StagedLink> adopt(const std::string& name) {
    auto link = std::make_shared<StagedLink>();
    set.adopt(link,
              {.name = name,
               .cluster = "c",
               .version = "1",
               .features = link::standby_features,
               .address = name.substr(0, name.find('#')) + ":1",
               .has_etcd = true},
              {}, "");
    loop.run_until_idle();
    return link;
  }
  void has_all(StagedLink& link) {
    using Kind = link::StandbyRecord::Kind;
    const auto last = link::read_standby_frame(std::string_view(link.frames.back()).substr(4));
    REQUIRE(last);
    CHECK(link.callbacks.streams(
              link::standby_frame({.kind = Kind::has, .number = last->number}).substr(4)) == "");
    loop.run_until_idle();
  }
  void etcd_writes_all() {
    const auto& commands = election->all<election::Publish>();
    if (!commands.empty()) etcd_says(election::Written{commands.back().number});
  }
  bool may_speak() const { return !server.speaks_until() || loop.now() < *server.speaks_until(); }
  bool says(const std::string& words) const {
    return std::ranges::any_of(said, [&](const auto& it) { return it.find(words) != it.npos; });
  }

  SetPorts ports() {
    using LinkPointer = std::unique_ptr<DialledLink>;
    return {.loop = loop.loop(),
            .wall_now = [] { return WallTime{std::chrono::milliseconds(1000)}; },
            .link_to = [this](const std::string& host, int port,
                              DialCallbacks its) -> Result<LinkPointer> {
              line = std::make_shared<StagedDial::Line>();
              line->callbacks = std::move(its);
              dialled = host + ":" + std::to_string(port);
              return std::make_unique<StagedDial>(line);
            },
            .election = [this](const ElectionOptions&, const EtcdAccess&,
                               Elector::Told told) -> Result<std::unique_ptr<Elector>> {
              auto made = std::make_unique<StagedElection>(std::move(told));
              election = made.get();
              return made;
            }};
  }
  ReplicaController::Callbacks callbacks() {
    return {.say = [this](LogLevel, const std::string& it) { said.push_back(it); },
            .sees_all = [](const std::string&) { return true; },
            .leader_changed = [](const LeaderChange&) {}};
  }

  StagedLoop loop;
  StagedServer server;
  std::vector<std::string> said;
  StagedElection* election = nullptr;
  std::shared_ptr<StagedDial::Line> line;
  std::string dialled;
  ReplicaController set;
};

}  // namespace cpprun::test
