// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/members.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cpprun::sim {

using namespace std::chrono_literals;

Members::Members(Universe& universe, Network& network)
    : universe_(universe),
      network_(network),
      etcd_(universe),
      links_(universe, network,
             {.program = [this](int daemon) -> Program& {
                return members_[static_cast<std::size_t>(daemon)]->program();
              },
              .adopt =
                  [this](int daemon, const std::shared_ptr<LinkEnd>& link,
                         const link::Follow& follow) {
                    ReplicaController* const set =
                        members_[static_cast<std::size_t>(daemon)]->set();
                    if (set != nullptr) set->adopt(link, follow, {}, "");
                  }}) {
  for (int number = 0; number < universe.scenario.set->daemons; ++number) {
    members_.push_back(std::make_unique<Member>(universe, number));
    members_.back()->serve(network, links_, etcd_);
  }
}

void Members::begin() {
  for (auto& each : members_) {
    Random random{universe_.scenario.seed, 34, each->number()};
    universe_.time.later(random.up_to(50ms), [&member = *each] {
      if (!member.program().alive()) member.begin();
    });
  }
}

bool Members::is_led() const {
  return std::ranges::any_of(members_, [](const auto& each) { return each->leads(); });
}

CoordinatorHost& Members::leading() {
  for (const auto& each : members_) {
    if (each->leads()) return each->host();
  }
  return members_.front()->host();
}

// --- faults --------------------------------------------------------------------------------------

// The leader half of the time, and always for a transfer.
Member& Members::victim_of(const Fault& fault) {
  const auto drawn = static_cast<std::size_t>(fault.value) / 4 % members_.size();
  for (const auto& each : members_) {
    const bool may_be_drawn = fault.value / 2 % 2 != 0 && fault.kind != FaultKind::hand_over;
    if (!may_be_drawn && each->leads()) return *each;
  }
  return *members_[drawn];
}

// A single fault that makes a cpprund lose leadership: a synced standby becomes the leader.
bool Members::is_turn(const Member& victim) const {
  const Scenario& scenario = universe_.scenario;
  int turns = 0;
  for (const Fault& each : scenario.faults) {
    if (each.kind == FaultKind::daemon_skew) continue;
    const bool is_one = each.kind == FaultKind::coordinator_killed ||
                        each.kind == FaultKind::coordinator_host_dies ||
                        each.kind == FaultKind::coordinator_restarted ||
                        each.kind == FaultKind::coordinator_stopped ||
                        each.kind == FaultKind::hand_over;
    if (!is_one || ++turns > 1) return false;
  }
  if (turns == 0 || scenario.delay_max > 20ms) return false;
  return std::ranges::any_of(members_, [&victim](const auto& each) {
    return each->leads() &&
           (each->number() != victim.number() ||
            std::ranges::any_of(each->set()->seen().standbys, &StandbySnapshot::is_in_sync));
  });
}

void Members::judge_the_end() {
  constexpr Duration heals_within = 60s;
  if (universe_.time.now() < healed_ + heals_within) return;
  const bool any_runs = std::ranges::any_of(members_, [](const auto& each) {
    return each->program().alive() && !each->program().stopped();
  });
  universe_.judge.must(!any_runs || is_led(), "there is no leader, and no fault explains it");
}

void Members::commit(const Fault& fault) {
  Member& member = victim_of(fault);
  healed_ = std::max(healed_, universe_.time.now() + fault.lasts);
  // A skewed clock does not end a cpprund. Whether a standby is in sync is checked at the loss.
  if (fault.kind != FaultKind::daemon_skew && is_turn(member)) universe_.judge.expect_turn();
  universe_.trace.line(universe_.time.now(), "… of cpprund {}", member.number());
  switch (fault.kind) {
    case FaultKind::coordinator_killed:
    case FaultKind::coordinator_host_dies:
      end(member, fault.kind == FaultKind::coordinator_host_dies);
      // An operator starts it again.
      if (fault.value % 2 != 0) begin_in(fault.lasts, member);
      return;
    case FaultKind::coordinator_restarted:
      end(member, fault.value % 3 == 0);
      if (fault.value % 3 == 0) member.reboot();
      return begin_in(fault.lasts, member);
    case FaultKind::coordinator_stopped:
      member.program().stop();
      universe_.time.later(fault.lasts,
                           [&member, &fault] { member.program().go_on(fault.value % 2 == 0); });
      return;
    case FaultKind::daemon_cut:
      return cut(fault, member);
    case FaultKind::daemon_skew:
      member.clock().run(fault.value, universe_.time.now());
      member.clock().wall_offset += fault.lasts * (fault.value > 0 ? 1 : -1);
      return;
    case FaultKind::hand_over:
      return hand_over(fault);
    case FaultKind::etcd_trouble:
      return etcd_.commit(fault);
    default:
      return;
  }
}

void Members::end(Member& member, bool machine_too) {
  if (machine_too) network_.daemon_path(member.number()).host_up = false;
  member.end();
  network_.coordinator_ended(daemon_place(member.number()));
  links_.ended(member.number());
}

void Members::begin_in(Duration while_away, Member& member) {
  universe_.time.later(while_away, [this, &member] {
    if (member.program().alive()) return;
    network_.daemon_path(member.number()).host_up = true;
    member.begin();
  });
}

// From nodes, the others, etcd, or some of these, in one direction or both.
void Members::cut(const Fault& fault, const Member& member) {
  const TimePoint until = universe_.time.now() + fault.lasts;
  const int from_whom = fault.value % 8;
  const bool cuts_in = fault.value / 8 % 3 != 1;
  const bool cuts_out = fault.value / 8 % 3 != 2;
  Path& path = network_.daemon_path(member.number());
  if (from_whom == 0) path.slow_until = std::max(path.slow_until, until);
  if ((from_whom & 1) != 0) {
    if (cuts_out) path.cut_until[0] = std::max(path.cut_until[0], until);
    if (cuts_in) path.cut_until[1] = std::max(path.cut_until[1], until);
  }
  for (const auto& other : members_) {
    if ((from_whom & 2) == 0 || other->number() == member.number()) continue;
    if (cuts_out) links_.cut(member.number(), other->number(), until);
    if (cuts_in) links_.cut(other->number(), member.number(), until);
  }
  if ((from_whom & 4) != 0) etcd_.cut(member.number(), until);
}

void Members::hand_over(const Fault& fault) {
  const auto leader =
      std::ranges::find_if(members_, [](const auto& each) { return each->leads(); });
  if (leader == members_.end()) return;
  Member& member = **leader;
  const bool leaves = fault.value % 2 != 0;
  member.program().receive([this, &member, &fault, leaves] {
    if (!leaves) {
      // A missing standby is a valid answer.
      member.set()->hand_over([](const Result<std::string>&) {});
      return;
    }
    member.set()->leave([this, &member, &fault] {
      end(member, false);
      begin_in(fault.lasts, member);
    });
  });
}

}  // namespace cpprun::sim
