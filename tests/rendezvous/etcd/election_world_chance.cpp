// SPDX-License-Identifier: BSD-3-Clause
// The random commands of the users of an ElectionWorld, and its random faults.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/rendezvous/etcd/election_world.h"

namespace cpprun::test {

using namespace std::chrono_literals;

void ElectionWorld::plan_user(int who) {
  timeline_.later(chance_.between(20ms, 400ms), [this, who] {
    use(who);
    plan_user(who);
  });
}

void ElectionWorld::use(int who) {
  Program& program = programs_[static_cast<std::size_t>(who)];
  if (!program.driver || program.is_stopped) return;
  const int dice = chance_.between(0, 99);
  if (!program.driver->machine().is_leading()) {
    // A program that has withdrawn campaigns again.
    if (program.is_withdrawn && !is_calm_) {
      program.is_withdrawn = false;
      tell(who, election::Enter{});
    }
    return;
  }
  // More names than one page of a read.
  const std::string name = fmt::format("job{}", chance_.between(0, 39));
  if (dice < 60) {
    const auto number = ++program.number;
    tell(who,
         election::Keep{name, fmt::format("{}.{}.{}", program.name, program.life, number), number});
  } else if (dice < 75) {
    tell(who, election::Drop{name, ++program.number});
  } else if (dice < 90) {
    std::vector<std::string> synced;
    for (const Program& each : programs_) {
      if (&each != &program && chance_.chance(0.7)) synced.push_back(each.name);
    }
    program.synced = synced;
    tell(who, election::Publish{std::move(synced), ++program.number});
  } else if (dice < 94 && !is_calm_ && !program.synced.empty()) {
    tell(who, election::HandOver{program.synced.front()});
  } else if (dice < 96 && !is_calm_) {
    tell(who, election::Withdraw{});
  }
}

std::vector<ElectionFault> ElectionWorld::all_faults() {
  std::vector<ElectionFault> all;
  for (int each = 0; each <= static_cast<int>(ElectionFault::member_crashes); ++each) {
    all.push_back(static_cast<ElectionFault>(each));
  }
  return all;
}

void ElectionWorld::plan_faults() {
  const int count = chance_.between(3, 14);
  for (int each = 0; each < count; ++each) plan_fault(TimePoint{} + chance_.between(1s, 22s));
}

void ElectionWorld::plan_fault(TimePoint at) {
  using Fault = ElectionFault;
  const auto fault = options_.faults[static_cast<std::size_t>(
      chance_.between(0, static_cast<int>(options_.faults.size()) - 1))];
  const int who = chance_.between(0, options_.programs - 1);
  const Duration length = chance_.chance(0.5) ? chance_.up_to(1500ms) : chance_.up_to(8s);
  const auto with_end = [&](std::function<void()> begins, std::function<void()> ends) {
    timeline_.at(at, std::move(begins));
    timeline_.at(at + length, std::move(ends));
  };
  switch (fault) {
    case Fault::killed:
      return with_end([this, who] { end(who); },
                      [this, who] {
                        if (!programs_[static_cast<std::size_t>(who)].driver) begin(who);
                      });
    case Fault::stopped:
      return with_end(
          [this, who] {
            note(fmt::format("p{} is stopped", who));
            programs_[static_cast<std::size_t>(who)].is_stopped = true;
          },
          [this, who] { go_on(who); });
    case Fault::cut_from_one:
    case Fault::cut_from_all:
      return plan_cut(at, length, who, fault == Fault::cut_from_all);
    case Fault::loss:
      return with_end([this, loss = chance_.between(1, 5) * 0.1] { loss_ = loss; },
                      [this] { loss_ = 0; });
    case Fault::slowness:
      return with_end([this, most = chance_.up_to(1500ms)] { slowness_ = most; },
                      [this] { slowness_ = {}; });
    case Fault::no_room:
      return with_end([this] { etcd_.fill(true); }, [this] { etcd_.fill(false); });
    case Fault::election:
      return timeline_.at(at, [this] {
        note("etcd chooses another leader");
        etcd_.advance(now());
        etcd_.elect_another(now());
      });
    case Fault::member_stopped:
    case Fault::member_cut:
    case Fault::member_crashes:
      return plan_member_fault(at, length, fault);
  }
}

void ElectionWorld::plan_cut(TimePoint at, Duration length, int who, bool is_from_all) {
  const int member = chance_.between(0, options_.etcd.members - 1);
  const auto cut = std::make_shared<int>(who);
  timeline_.at(at, [this, cut, member, is_from_all, of_leader = chance_.chance(0.5)] {
    if (of_leader) *cut = judge_.leader(now()).value_or(*cut);
    note(fmt::format("p{} is cut from {}", *cut, is_from_all ? "all" : "a member"));
    auto& members = is_cut_[static_cast<std::size_t>(*cut)];
    if (is_from_all) std::fill(members.begin(), members.end(), true);
    members[static_cast<std::size_t>(member)] = true;
  });
  timeline_.at(at + length, [this, cut] {
    auto& members = is_cut_[static_cast<std::size_t>(*cut)];
    std::fill(members.begin(), members.end(), false);
  });
}

void ElectionWorld::plan_member_fault(TimePoint at, Duration length, ElectionFault fault) {
  const auto member = std::make_shared<int>(chance_.between(0, options_.etcd.members - 1));
  const bool is_full = chance_.chance(0.3);
  timeline_.at(at, [this, member, fault, is_full, of_leader = chance_.chance(0.6)] {
    etcd_.advance(now());
    if (of_leader) *member = etcd_.leader().value_or(*member);
    note(fmt::format("member {} {}", *member,
                     fault == ElectionFault::member_stopped ? "is stopped"
                     : fault == ElectionFault::member_cut   ? "is cut off"
                                                            : "crashes"));
    if (fault == ElectionFault::member_cut) return etcd_.cut(now(), *member, true);
    if (fault == ElectionFault::member_crashes) return etcd_.crash(now(), *member);
    etcd_.stop(now(), *member);
    // While etcd is full, the leader's key cannot move to a lease of the new term.
    if (is_full) etcd_.fill(true);
  });
  timeline_.at(at + length, [this, member, fault] {
    etcd_.advance(now());
    if (fault == ElectionFault::member_cut) return etcd_.cut(now(), *member, false);
    if (fault == ElectionFault::member_crashes) return etcd_.begin_again(now(), *member);
    note(fmt::format("member {} resumes", *member));
    etcd_.go_on(now(), *member);
    timeline_.later(500ms, [this] { etcd_.fill(false); });
  });
}

// Ends all faults.
void ElectionWorld::heal() {
  note("all is well");
  loss_ = 0;
  slowness_ = {};
  for (auto& cut : is_cut_) std::fill(cut.begin(), cut.end(), false);
  etcd_.fill(false);
  etcd_.advance(now());
  for (int member = 0; member < options_.etcd.members; ++member) {
    etcd_.go_on(now(), member);
    etcd_.cut(now(), member, false);
    etcd_.begin_again(now(), member);
  }
  for (int who = 0; who < options_.programs; ++who) {
    Program& program = programs_[static_cast<std::size_t>(who)];
    go_on(who);
    if (!program.driver) begin(who);
    if (program.is_withdrawn || !program.is_wanted) {
      program.is_withdrawn = false;
      tell(who, election::Enter{});
    }
  }
}

}  // namespace cpprun::test
