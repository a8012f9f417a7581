// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/member.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rendezvous/endpoint.h"
#include "rendezvous/etcd/bounds.h"

namespace cpprun::sim {

namespace {

constexpr int daemon_port = 29400;

}  // namespace

std::string host_of_daemon(int daemon) {
  return fmt::format("10.9.0.{}", daemon + 1);
}

class Member::SimulatedAlarm : public Alarm {
 public:
  explicit SimulatedAlarm(Member& member) : member_(member) {}
  ~SimulatedAlarm() override { ++*asked_; }
  SimulatedAlarm(const SimulatedAlarm&) = delete;
  SimulatedAlarm& operator=(const SimulatedAlarm&) = delete;

  void ring_in(Duration after, std::function<void()> what) override {
    Timeline& time = member_.universe_.time;
    const TimePoint due = member_.clock_.truth(member_.clock_.local(time.now()) + after);
    time.at(due, [&program = member_.program_, asked = asked_, number = ++*asked_,
                  what = std::move(what)] {
      program.receive(
          [asked, number, what] {
            if (number == *asked) what();
          },
          true);
    });
  }
  void call_off() override { ++*asked_; }

 private:
  Member& member_;
  std::shared_ptr<std::uint64_t> asked_ = std::make_shared<std::uint64_t>(0);
};

Member::Member(Universe& universe, int number)
    : universe_(universe),
      number_(number),
      host_(universe, program_, clock_, daemon_place(number),
            {.to_local_agent = [](const link::Message&) {},
             .done = [] {},
             .keep_record = [this](const auto& job,
                                   const auto& record) { return set_->keep(job, record); },
             .forget_record =
                 [this](const std::string& job) { return set_ ? set_->forget(job) : 0; }}) {
  clock_.offset = Random{universe.scenario.seed, 32, number}.up_to(std::chrono::hours(1000));
}

void Member::serve(Network& network, DaemonLinks& links, EtcdHost& etcd) {
  host_.serve(network);
  links_ = &links;
  etcd_ = &etcd;
}

bool Member::leads() const {
  return set_ && set_->seen().leads && set_->seen().epoch == universe_.epoch;
}

// --- its process ---------------------------------------------------------------------------------

void Member::begin() {
  program_.begin();
  ++lives_;
  // As run_store_daemon() does it.
  life_ = fmt::format("{:016x}", Random{universe_.scenario.seed, 75, number_, lives_}.next());
  universe_.trace.line(universe_.time.now(), "cpprund {} begins, life {}", number_, life_);
  host_.begin();
  etcd_->judge().is_called(number_, options().name);
  set_ = std::make_unique<ReplicaController>(ports(), host_, options(), callbacks());
  const auto started = set_->start();
  universe_.judge.must(started.has_value(), "a cpprund does not begin");
}

void Member::end() {
  program_.end();
  set_.reset();
  host_.end();
  etcd_->judge().ended(number_);
}

void Member::reboot() {
  clock_.offset = -universe_.time.now().time_since_epoch();
}

// --- what its ReplicaController has to do with the world
// -------------------------------------------------

EventLoop Member::loop() {
  return {.now = [this] { return clock_.local(universe_.time.now()); },
          .soon =
              [this](std::function<void()> what) {
                universe_.time.later({}, [this, life = lives_, what = std::move(what)] {
                  if (life != lives_) return;
                  program_.receive([this, life, what] {
                    if (life == lives_) what();
                  });
                });
              },
          .make_alarm = [this]() -> std::unique_ptr<Alarm> {
            return std::make_unique<SimulatedAlarm>(*this);
          }};
}

SetPorts Member::ports() {
  using LinkPointer = std::unique_ptr<DialledLink>;
  using ElectionPointer = std::unique_ptr<Elector>;
  return {.loop = loop(),
          .wall_now = [this] { return clock_.wall(universe_.time.now()); },
          .link_to = [this](const std::string& host, int,
                            DialCallbacks callbacks) -> Result<LinkPointer> {
            int daemon = 0;
            while (daemon < daemons_max && host_of_daemon(daemon) != host) ++daemon;
            return links_->link_to(number_, daemon, std::move(callbacks));
          },
          .election = [this](ElectionOptions options, const EtcdAccess&,
                             Elector::Told told) -> Result<ElectionPointer> {
            options.seed = Random{universe_.scenario.seed, 76, number_, lives_}.next();
            return std::make_unique<SimulatedElection>(
                SimulatedElection::Context{universe_, program_, clock_, *etcd_, number_},
                std::move(options), std::move(told));
          }};
}

ReplicaControllerOptions Member::options() {
  EtcdAccess access;
  access.endpoints.assign(static_cast<std::size_t>(universe_.scenario.set->etcd_members),
                          EtcdEndpoint{false, "etcd", 2379});
  return {.name = member_name(fmt::format("d{}", number_), life_),
          .cluster = "sim",
          .place = fmt::format("{}:{}", host_of_daemon(number_), daemon_port),
          .version = "0",
          .etcd = std::move(access),
          .etcd_lease = bounds::etcd_lease_min};
}

ReplicaController::Callbacks Member::callbacks() {
  return {.say =
              [this](LogLevel, const std::string& sentence) {
                universe_.trace.line(universe_.time.now(), "cpprund {}: {}", number_, sentence);
              },
          .sees_all = [](const std::string&) { return true; },
          .leader_changed = [](const LeaderChange&) {}};
}

}  // namespace cpprun::sim
