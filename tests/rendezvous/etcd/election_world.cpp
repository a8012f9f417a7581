// SPDX-License-Identifier: BSD-3-Clause
#include "tests/rendezvous/etcd/election_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/state_machine.h"
#include "rendezvous/etcd/leader_lease.h"

namespace cpprun::test {

using namespace std::chrono_literals;
using Kind = etcd::Failure::Kind;

namespace {

constexpr Duration etcd_gives_up = 7s;  // on a request that it cannot decide
constexpr std::size_t lines_max = 400;

std::string text_of(const election::Action& action) {
  return std::visit(
      Overloaded{
          [](const election::Leads& leads) { return fmt::format("leads, epoch {}", leads.epoch); },
          [](const election::Deposed& deposed) { return "deposed: " + deposed.reason; },
          [](const election::LeaderIs& is) {
            return fmt::format("follows {} of epoch {}", is.name, is.epoch);
          },
          [](const election::NoLeader&) { return std::string("sees no leader"); },
          [](const election::Unreachable& is) { return "unreachable: " + is.reason; },
          [](const election::Reachable&) { return std::string("reachable"); },
          [](const election::Unwritable& is) { return "unwritable: " + is.reason; },
          [](const election::Writable&) { return std::string("writable"); },
          [](const election::Inconsistent& barred) { return "barred: " + barred.reason; },
          [](const election::Unbarred&) { return std::string("unbarred"); },
          [](const election::NotHandedOver& refused) {
            return "not handed over: " + refused.reason;
          },
          [](const election::NotWritten& refused) { return "not written: " + refused.reason; },
          [](const election::Withdrawn&) { return std::string("withdrawn"); },
          [](const auto&) { return std::string(); },
      },
      action);
}

}  // namespace

ElectionWorld::ElectionWorld(Options options, std::uint64_t seed)
    : options_(options),
      chance_(seed, 1),
      etcd_(options.etcd, seed),
      keys_(*ElectionKeys::make("sim")),
      judge_(keys_),
      seed_(seed) {
  // Some networks are always slow.
  if (chance_.chance(0.4)) usual_slowness_ = chance_.up_to(300ms);
  for (int each = 0; each < options_.programs; ++each) {
    Program program{.name = fmt::format("p{}", each)};
    program.clock = {.offset = chance_.up_to(1000s),
                     .parts_per_million = chance_.between(-5000, 5000)};
    judge_.is_called(each, program.name);
    programs_.push_back(std::move(program));
    is_cut_.emplace_back(static_cast<std::size_t>(options_.etcd.members), false);
  }
}

void ElectionWorld::note(std::string text) {
  trace_.push_back(fmt::format("{:8.3f} {}", in_seconds(now().time_since_epoch()), text));
  if (trace_.size() > lines_max) trace_.pop_front();
}

// --- programs ------------------------------------------------------------------------------------

void ElectionWorld::begin(int who) {
  Program& program = programs_[static_cast<std::size_t>(who)];
  const auto life = ++program.life;
  program.will.reset();
  program.is_withdrawn = false;
  program.held.clear();
  program.driver = std::make_unique<Driver<LeaderElection>>(Driver<LeaderElection>::Effects{
      .now =
          [this, who] {
            return programs_[static_cast<std::size_t>(who)].clock.local(timeline_.now());
          },
      .perform = [this, who](const election::Action& action) { perform(who, action); },
      .arm = [this, who](std::optional<TimePoint> at) { arm(who, at); }});
  program.driver->begin(LeaderElection(
      {.name = program.name,
       .card = "card",
       .keys = keys_,
       .endpoints = std::vector<EtcdEndpoint>(static_cast<std::size_t>(options_.etcd.members),
                                              EtcdEndpoint{false, "etcd", 2379}),
       .ttl = options_.ttl,
       .seed = sim::Random(seed_, who, life).next()}));
  note(fmt::format("p{} begins", who));
  program.driver->start(
      [](LeaderElection& election, TimePoint at) { return election.advance(at); });
  if (program.is_wanted) program.driver->post(election::Enter{});
}

void ElectionWorld::end(int who) {
  Program& program = programs_[static_cast<std::size_t>(who)];
  if (!program.driver) return;
  note(fmt::format("p{} is killed", who));
  program.driver.reset();
  program.is_stopped = false;
  ++program.life;
  judge_.ended(who);
  resign_for(who);
}

// The guard survives unless the whole host is lost; its message may arrive late and more than once.
void ElectionWorld::resign_for(int who) {
  const auto will = std::exchange(programs_[static_cast<std::size_t>(who)].will, std::nullopt);
  if (!will || chance_.chance(0.3)) return;
  note(fmt::format("the guard of p{} resigns, epoch {}", who, will->epoch));
  const auto request = resignation(keys_, will->epoch, will->synced);
  const int times = chance_.between(1, 3);
  for (int each = 0; each < times; ++each) {
    const int member = chance_.between(0, options_.etcd.members - 1);
    const Duration late = chance_.chance(0.7) ? delay() : chance_.up_to(3s);
    timeline_.later(late, [this, who, member, request] {
      if (etcd_.is_crashed(member) || is_lost(who, static_cast<std::size_t>(member))) return;
      (void)etcd_.ask(now(), member, request);
      if (etcd_.decided()) judge_.decided(now(), who, request, *etcd_.decided());
    });
  }
}

// Runs `what` now, or when the program resumes.
void ElectionWorld::run(int who, std::function<void()> what) {
  Program& program = programs_[static_cast<std::size_t>(who)];
  if (!program.driver) return;
  if (program.is_stopped) {
    program.held.push_back(std::move(what));
    return;
  }
  if (!program.is_waking) judge_.awake(now(), who);
  what();
  check(who);
}

void ElectionWorld::check(int who) {
  Program& program = programs_[static_cast<std::size_t>(who)];
  if (!program.driver) return;
  if (auto broken = program.driver->machine().check(); broken && objection_.empty()) {
    objection_ = fmt::format("p{}: {}", who, *broken);
  }
  watch_leader();
}

void ElectionWorld::arm(int who, std::optional<TimePoint> at) {
  Program& program = programs_[static_cast<std::size_t>(who)];
  const auto alarm = ++program.alarm;
  if (!at) return;
  const TimePoint due = *at == TimePoint::min() ? now() : program.clock.truth(*at);
  timeline_.at(due, [this, who, alarm, life = program.life] {
    Program& later = programs_[static_cast<std::size_t>(who)];
    if (life != later.life || alarm != later.alarm) return;
    run(who, [this, who] { programs_[static_cast<std::size_t>(who)].driver->advance(); });
  });
}

void ElectionWorld::tell(int who, const election::Event& event) {
  run(who, [this, who, event] {
    judge_.commands(who, event);
    programs_[static_cast<std::size_t>(who)].driver->post(event);
  });
}

void ElectionWorld::perform(int who, const election::Action& action) {
  if (const auto* const asked = std::get_if<election::Ask>(&action)) return ask(who, *asked);
  hear(who, action);
}

void ElectionWorld::hear(int who, const election::Action& action) {
  Program& program = programs_[static_cast<std::size_t>(who)];
  TimePoint until{};
  if (const auto* const leads = std::get_if<election::Leads>(&action)) {
    until = program.clock.truth(leads->until);
    program.synced.clear();
  } else if (const auto* const renewed = std::get_if<election::Renewed>(&action)) {
    until = program.clock.truth(renewed->until);
  } else if (const auto* const deposed = std::get_if<election::Deposed>(&action)) {
    if (options_.keeps_lead && !deposed->is_orderly && objection_.empty()) {
      objection_ = fmt::format("p{} is deposed: {}", who, deposed->reason);
    }
  } else if (const auto* const will = std::get_if<election::Will>(&action)) {
    program.will = *will;
  } else if (std::holds_alternative<election::Withdrawn>(action)) {
    program.is_withdrawn = true;
  } else if (std::holds_alternative<election::Inconsistent>(action) && objection_.empty()) {
    objection_ = fmt::format("p{} objects to an etcd that has lost nothing: {}", who,
                             std::get<election::Inconsistent>(action).reason);
  }
  if (auto text = text_of(action); !text.empty()) note(fmt::format("p{} {}", who, text));
  judge_.received(now(), who, action, until);
}

void ElectionWorld::go_on(int who) {
  Program& program = programs_[static_cast<std::size_t>(who)];
  if (!program.is_stopped) return;
  note(fmt::format("p{} resumes", who));
  program.is_stopped = false;
  program.is_waking = true;
  for (auto& each : std::exchange(program.held, {})) run(who, std::move(each));
  program.is_waking = false;
}

// --- requests ------------------------------------------------------------------------------------

Duration ElectionWorld::delay() {
  const Duration slowness = std::max(slowness_, usual_slowness_);
  return 200us + chance_.up_to(slowness > 4ms && chance_.chance(0.3) ? slowness : 4ms);
}

bool ElectionWorld::is_lost(int who, std::size_t member) {
  return is_cut_[static_cast<std::size_t>(who)][member] || chance_.chance(loss_);
}

void ElectionWorld::ask(int who, const election::Ask& ask) {
  Program& program = programs_[static_cast<std::size_t>(who)];
  ++requests_;
  auto flight = std::make_shared<Flight>(Flight{who, program.life, ask});
  const int member = static_cast<int>(ask.endpoint);
  if (etcd_.is_crashed(member)) {
    timeline_.later(1ms, [this, flight] {
      answer(flight, tl::unexpected(etcd::Failure{Kind::unreachable, "connection refused"}));
    });
    return;
  }
  // The timeout is measured by the program's own clock.
  const TimePoint deadline = program.clock.truth(program.clock.local(now()) + ask.timeout);
  timeline_.at(deadline, [this, flight] {
    answer(flight, tl::unexpected(etcd::Failure{Kind::silent, "no response"}));
  });
  if (is_lost(who, ask.endpoint)) return;
  timeline_.later(delay(), [this, flight] {
    flight->arrived = now();
    arrive(flight);
  });
}

void ElectionWorld::arrive(const std::shared_ptr<Flight>& flight) {
  const int member = static_cast<int>(flight->ask.endpoint);
  auto heard = etcd_.ask(now(), member, flight->ask.request);
  const bool is_lost_on_way_back = is_lost(flight->who, flight->ask.endpoint);
  // Recorded before the response, which may be lost.
  if (etcd_.decided()) {
    judge_.decided(now(), flight->who, std::get<etcd::Transaction>(flight->ask.request),
                   *etcd_.decided());
  }
  if (!heard && now() < flight->arrived + etcd_gives_up && !etcd_.is_crashed(member)) {
    timeline_.later(20ms, [this, flight] { arrive(flight); });
    return;
  }
  if (!heard) {
    heard = tl::unexpected(etcd::Failure{Kind::unavailable, "etcdserver: request timed out"});
  }
  if (is_lost_on_way_back) return;
  timeline_.later(delay(), [this, flight, heard = *std::move(heard)] { answer(flight, heard); });
}

void ElectionWorld::answer(const std::shared_ptr<Flight>& flight, etcd::Heard heard) {
  if (std::exchange(flight->is_answered, true)) return;
  Program& program = programs_[static_cast<std::size_t>(flight->who)];
  if (program.life != flight->life) return;
  run(flight->who, [this, flight, heard = std::move(heard)] {
    programs_[static_cast<std::size_t>(flight->who)].driver->post(
        election::Answered{flight->ask.id, heard});
  });
}

// --- running -------------------------------------------------------------------------------------

void ElectionWorld::watch_leader() {
  if (judge_.leader(now())) {
    leaderless_since_.reset();
    return;
  }
  if (!leaderless_since_) leaderless_since_ = now();
  if (is_calm_) longest_gap_ = std::max(longest_gap_, now() - *leaderless_since_);
}

void ElectionWorld::run_until(TimePoint end) {
  while (!timeline_.empty() && timeline_.next() <= end && objection_.empty() &&
         judge_.objection().empty()) {
    timeline_.step();
  }
}

std::string ElectionWorld::play() {
  constexpr Duration trouble = 25s;
  for (int who = 0; who < options_.programs; ++who) {
    timeline_.at(TimePoint{} + chance_.up_to(2s), [this, who] {
      if (!programs_[static_cast<std::size_t>(who)].driver) begin(who);
    });
    plan_user(who);
  }
  if (!options_.faults.empty()) plan_faults();
  run_until(TimePoint{} + trouble);
  usual_slowness_ = {};
  heal();
  auto broken = play_calm();
  if (broken.empty()) broken = play_own_resignation();
  if (!objection_.empty()) return objection_;
  if (!judge_.objection().empty()) return judge_.objection();
  return broken;
}

// There is soon a leader, which stays; no program is busy without need; one lease is enough.
std::string ElectionWorld::play_calm() {
  const TimePoint healed = now();
  // An election, a lease that ends late, its remaining time, and the wait of the unsynced; requests
  // in flight may take their time before.
  const Duration bound = 2 * options_.etcd.election + etcd_gives_up + 6 * options_.ttl;
  is_calm_ = true;
  leaderless_since_.reset();
  watch_leader();
  run_until(healed + bound);
  const int leaders = judge_.leaders();
  const auto who = judge_.leader(now());
  if (!who) return "no leader although all faults are over";
  const auto before = requests_;
  run_until(now() + 10s);
  if (judge_.leader(now()) != who || judge_.leaders() != leaders) {
    return "the leader changes although all faults are over";
  }
  const double pace = static_cast<double>(requests_ - before) / options_.programs / 10;
  if (pace > 25) return fmt::format("{:.0f} requests a second and program", pace);
  if (etcd_.leases() != 1) return fmt::format("{} leases are left", etcd_.leases());
  return "";
}

std::string ElectionWorld::play_own_resignation() {
  for (int who = 0; who < options_.programs; ++who) {
    programs_[static_cast<std::size_t>(who)].is_wanted = false;
    tell(who, election::Withdraw{});
  }
  const TimePoint bound = now() + 3 * options_.ttl;
  const auto is_left = [](const Program& program) { return !program.is_withdrawn; };
  while (std::ranges::any_of(programs_, is_left)) {
    if (timeline_.empty() || timeline_.next() > bound) return "a program does not withdraw";
    run_until(timeline_.next());
    if (!objection_.empty() || !judge_.objection().empty()) return "";
  }
  if (etcd_.leases() != 0) return fmt::format("{} leases outlive all programs", etcd_.leases());
  return "";
}

}  // namespace cpprun::test
