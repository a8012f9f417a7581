// SPDX-License-Identifier: BSD-3-Clause
// What a Contest's leader has written for whoever leads next.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/bounds.h"
#include "proto/text.h"
#include "rendezvous/etcd/contest.h"

namespace cpprun {

using Kind = etcd::Failure::Kind;

// --- wishes --------------------------------------------------------------------------------------

void Contest::hear(TimePoint, const contest::Keep& keep, Actions& actions) {
  if (!accepts(keep.number, actions)) return;
  if (auto kept = sizes_.keep(keep.name, keep.record.size()); !kept) {
    return refuse(keep.number, kept.error().reason, actions);
  }
  queue_.keep(keep.name, keep.record, keep.number);
}

void Contest::hear(TimePoint, const contest::Drop& drop, Actions& actions) {
  if (!accepts(drop.number, actions)) return;
  if (drop.name.empty() || drop.name.size() > bounds::contest_record_name_bytes_max) {
    return refuse(drop.number, "no record in etcd has such a name", actions);
  }
  sizes_.drop(drop.name);
  queue_.drop(drop.name, drop.number);
}

void Contest::hear(TimePoint, const contest::Publish& publish, Actions& actions) {
  if (!accepts(publish.number, actions)) return;
  // Whoever leads has everything.
  std::vector<std::string> names = {options_.name};
  for (const std::string& name : publish.synced) {
    if (name.empty() || name.size() > bounds::contest_name_bytes_max) {
      return refuse(publish.number,
                    fmt::format("\"{}\" cannot be the name of a standby",
                                plain_line(name, bounds::name_shown_bytes_max)),
                    actions);
    }
    if (std::ranges::count(names, name) == 0) names.push_back(name);
  }
  if (names.size() > bounds::contest_synced_max) {
    return refuse(publish.number,
                  fmt::format("{} are said to have everything, and at most {} may be", names.size(),
                              bounds::contest_synced_max),
                  actions);
  }
  queue_.publish(std::move(names), publish.number);
}

bool Contest::accepts(std::uint64_t number, Actions& actions) {
  if (number <= queue_.last()) {
    actions.emplace_back(contest::NotWritten{number, "numbers of wishes have to grow"});
    return false;
  }
  if (is_leading()) return true;
  refuse(number, "it does not lead", actions);
  return false;
}

void Contest::refuse(std::uint64_t number, std::string reason, Actions& actions) {
  queue_.skip(number);
  actions.emplace_back(contest::NotWritten{number, std::move(reason)});
  tell_written(actions);
}

void Contest::tell_written(Actions& actions) {
  const auto through = queue_.through();
  if (!is_leading() && phase_ != Phase::leaving) return;
  if (through > std::exchange(told_written_, std::max(told_written_, through))) {
    actions.emplace_back(contest::Written{through});
  }
}

// --- an end that was asked for -------------------------------------------------------------------

void Contest::hear(TimePoint, const contest::HandOver& hand, Actions& actions) {
  const std::string shown = plain_line(hand.name, bounds::name_shown_bytes_max);
  if (!is_leading()) {
    actions.emplace_back(contest::NotHandedOver{
        fmt::format("it does not lead, and cannot hand over to \"{}\"", shown)});
    return;
  }
  if (hand.name == options_.name || std::ranges::count(names_, hand.name) == 0) {
    actions.emplace_back(contest::NotHandedOver{
        fmt::format("etcd does not say yet that \"{}\" has everything", shown)});
    return;
  }
  end_orderly(hand.name, fmt::format("it hands over to \"{}\"", shown), actions);
}

// The owner decides nothing any more before anybody else can.
void Contest::end_orderly(std::string heir, std::string reason, Actions& actions) {
  actions.emplace_back(contest::Deposed{std::move(reason), /*is_orderly=*/true});
  heir_ = std::move(heir);
  phase_.become(Phase::leaving);
}

// --- what etcd is asked --------------------------------------------------------------------------

Synced Contest::own_synced(const GrantedLease& lease) const {
  return {.names = names_, .epoch = fence_.epoch(), .term = lease.term, .ttl = lease.ttl};
}

std::vector<etcd::Operation> Contest::operations_of(const ChangeQueue::Batch& batch,
                                                    Actions& actions) {
  std::vector<etcd::Operation> operations;
  for (const auto& change : batch) {
    if (change.name.empty()) {
      names_ = change.synced;
      tell_will(actions);
      operations.emplace_back(
          etcd::Put{options_.keys.synced(), to_json(own_synced(tenure_->lease()))});
    } else if (change.record) {
      operations.emplace_back(etcd::Put{options_.keys.record(change.name), *change.record});
    } else {
      operations.emplace_back(etcd::Delete{options_.keys.record(change.name)});
    }
  }
  return operations;
}

std::vector<etcd::Operation> Contest::operations_for(Step step, Actions& actions) {
  const ContestKeys& keys = options_.keys;
  if (step == Step::write) return operations_of(queue_.next_batch(), actions);
  if (step == Step::take_over) {
    return {etcd::Put{keys.synced(), to_json(own_synced(tenure_->lease()))}};
  }
  const GrantedLease& next = *tenure_->next();
  return {etcd::Put{keys.leader(), to_json(LeaderCard{options_.name, options_.card}), next.id},
          etcd::Put{keys.synced(), to_json(own_synced(next))}};
}

etcd::Request Contest::fenced_request(Step step, Actions& actions) {
  if (!fenced_) fenced_ = Fenced{step, fence_.guard(options_.keys, operations_for(step, actions))};
  return fenced_->transaction;
}

void Contest::hear_fenced(TimePoint now, const Asked& asked, const etcd::Decided& decided,
                          Actions& actions) {
  fenced_.reset();
  if (fence_.judge(decided) == Fence::Verdict::lost) {
    return depose(now, "its changes in etcd are not taken any more: somebody else leads",
                  /*is_orderly=*/false, actions);
  }
  if (asked.step == Step::take_over) return take_over(actions);
  if (asked.step == Step::move) {
    put_away(tenure_->moved(), now);
    if (is_leading()) actions.emplace_back(contest::Renewed{tenure_->until()});
    return;
  }
  queue_.written();
  tell_written(actions);
}

void Contest::fail_fenced(TimePoint now, Step step, Kind kind, Actions& actions) {
  if (step == Step::move && kind == Kind::no_such_lease) {
    // Its comparisons were true, so it has never happened.
    fenced_.reset();
    tenure_->lose_next();
    move_at_ = now + options_.ttl / 2;
    return;
  }
  if (step == Step::take_over) return fail_to_load(now, kind);
  if (step != Step::write || kind != Kind::rejected) return;  // Asked for again, as it was.
  fenced_.reset();
  if (queue_.narrow()) return;
  const auto change = queue_.give_up();
  actions.emplace_back(contest::NotWritten{change.last, trouble_});
  tell_written(actions);
}

}  // namespace cpprun
