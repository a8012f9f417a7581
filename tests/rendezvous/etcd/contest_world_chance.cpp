// SPDX-License-Identifier: BSD-3-Clause
// What the users of a ContestWorld do, and what goes wrong in it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/rendezvous/etcd/contest_world.h"

namespace cpprun::test {

using namespace std::chrono_literals;

void ContestWorld::plan_user(int who) {
  timeline_.later(chance_.between(20ms, 400ms), [this, who] {
    use(who);
    plan_user(who);
  });
}

void ContestWorld::use(int who) {
  Program& program = programs_[static_cast<std::size_t>(who)];
  if (!program.driver || program.is_stopped) return;
  const int dice = chance_.between(0, 99);
  if (!program.driver->machine().is_leading()) {
    // Somebody who has stepped back comes again.
    if (program.is_withdrawn && !is_calm_) {
      program.is_withdrawn = false;
      tell(who, contest::Enter{});
    }
    return;
  }
  // More names than are read at once.
  const std::string name = fmt::format("job{}", chance_.between(0, 39));
  if (dice < 60) {
    const auto number = ++program.number;
    tell(who,
         contest::Keep{name, fmt::format("{}.{}.{}", program.name, program.life, number), number});
  } else if (dice < 75) {
    tell(who, contest::Drop{name, ++program.number});
  } else if (dice < 90) {
    std::vector<std::string> synced;
    for (const Program& each : programs_) {
      if (&each != &program && chance_.chance(0.7)) synced.push_back(each.name);
    }
    program.synced = synced;
    tell(who, contest::Publish{std::move(synced), ++program.number});
  } else if (dice < 94 && !is_calm_ && !program.synced.empty()) {
    tell(who, contest::HandOver{program.synced.front()});
  } else if (dice < 96 && !is_calm_) {
    tell(who, contest::Withdraw{});
  }
}

void ContestWorld::plan_faults() {
  const int count = chance_.between(3, 14);
  for (int each = 0; each < count; ++each) plan_fault(TimePoint{} + chance_.between(1s, 22s));
}

void ContestWorld::plan_fault(TimePoint at) {
  const int kind = chance_.between(0, 10);
  const int who = chance_.between(0, options_.programs - 1);
  const int member = chance_.between(0, options_.etcd.members - 1);
  const Duration length = chance_.chance(0.5) ? chance_.up_to(1500ms) : chance_.up_to(8s);
  const auto cut_off = std::make_shared<int>(who);
  const auto with_end = [this, at, length](std::function<void()> begins,
                                           std::function<void()> ends) {
    timeline_.at(at, std::move(begins));
    timeline_.at(at + length, std::move(ends));
  };
  switch (kind) {
    case 0:  // a program is killed, and begun anew
      return with_end([this, who] { end(who); },
                      [this, who] {
                        if (!programs_[static_cast<std::size_t>(who)].driver) begin(who);
                      });
    case 1:  // it is stopped
      return with_end(
          [this, who] {
            note(fmt::format("p{} is stopped", who));
            programs_[static_cast<std::size_t>(who)].is_stopped = true;
          },
          [this, who] { go_on(who); });
    case 2:  // it does not reach a member, or is cut off from all
    case 3:
      return with_end(
          [this, who, member, kind, cut_off] {
            // The one that leads as often as not.
            *cut_off = kind == 3 && member == 0 ? who : judge_.leader(now()).value_or(who);
            note(fmt::format("p{} is cut from {}", *cut_off, kind == 2 ? "a member" : "all"));
            auto& cut = is_cut_[static_cast<std::size_t>(*cut_off)];
            if (kind == 3) std::fill(cut.begin(), cut.end(), true);
            cut[static_cast<std::size_t>(member)] = true;
          },
          [this, cut_off] {
            auto& cut = is_cut_[static_cast<std::size_t>(*cut_off)];
            std::fill(cut.begin(), cut.end(), false);
          });
    case 4:  // what is said is lost, or late
    case 5:
      return with_end(
          [this, kind, loss = chance_.between(1, 5) * 0.1, late = chance_.up_to(1500ms)] {
            note(kind == 4 ? "the network loses" : "the network is slow");
            (kind == 4 ? loss_ = loss : 0.0);
            if (kind == 5) slowness_ = late;
          },
          [this] {
            loss_ = 0;
            slowness_ = {};
          });
    case 6:  // etcd has no room
      return with_end([this] { etcd_.fill(true); }, [this] { etcd_.fill(false); });
    case 7:  // another member leads
      return timeline_.at(at, [this] {
        note("etcd chooses another leader");
        etcd_.advance(now());
        etcd_.elect_another(now());
      });
    default:
      break;
  }
  // Something happens to a member, its leader as often as not.
  const bool of_leader = chance_.chance(0.6);
  const auto whom = [this, member, of_leader] {
    etcd_.advance(now());
    return of_leader ? etcd_.leader().value_or(member) : member;
  };
  const auto chosen = std::make_shared<int>(member);
  if (kind == 8 && options_.has_stops) {
    return with_end(
        [this, whom, chosen, is_full = chance_.chance(0.3)] {
          *chosen = whom();
          note(fmt::format("member {} is stopped", *chosen));
          etcd_.stop(now(), *chosen);
          // Without room no leader's key can move to a lease of the new term.
          if (is_full) etcd_.fill(true);
        },
        [this, chosen] {
          note(fmt::format("member {} goes on", *chosen));
          etcd_.advance(now());
          etcd_.go_on(now(), *chosen);
          timeline_.later(500ms, [this] { etcd_.fill(false); });
        });
  }
  if (kind == 9) {
    return with_end(
        [this, whom, chosen] {
          *chosen = whom();
          note(fmt::format("member {} is cut off", *chosen));
          etcd_.cut(now(), *chosen, true);
        },
        [this, chosen] {
          etcd_.advance(now());
          etcd_.cut(now(), *chosen, false);
        });
  }
  with_end(
      [this, whom, chosen] {
        *chosen = whom();
        note(fmt::format("member {} crashes", *chosen));
        etcd_.crash(now(), *chosen);
      },
      [this, chosen] {
        etcd_.advance(now());
        etcd_.begin_again(now(), *chosen);
      });
}

// Whatever has gone wrong is over.
void ContestWorld::heal() {
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
      tell(who, contest::Enter{});
    }
  }
}

}  // namespace cpprun::test
