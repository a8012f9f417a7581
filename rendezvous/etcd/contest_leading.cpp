// SPDX-License-Identifier: BSD-3-Clause
// A Contest that has won.
#include <fmt/format.h>

#include <utility>

#include "proto/etcd_bounds.h"
#include "proto/text.h"
#include "rendezvous/etcd/contest.h"

namespace cpprun {

void Contest::see_own(TimePoint now, const Asked& asked, const ContestView& view,
                      Actions& actions) {
  // From before it had won, when it was asked.
  if (!lanes_.is_of_this_life(asked)) return;
  if (const auto objection = objection_to(view, {options_.memory.cluster, 0}, options_.keys)) {
    depose(now, *objection, /*is_orderly=*/false, actions);
    return bar(objection, actions);
  }
  if (!view.leader) {
    return depose(now, "its key in etcd is gone: its lease has ended, or somebody removed it",
                  /*is_orderly=*/false, actions);
  }
  if (view.leader->epoch != fence_.epoch() || !tenure_->owns(view.leader->lease)) {
    return depose(now,
                  fmt::format("\"{}\" leads since epoch {}",
                              plain_line(view.leader->card.name, bounds::contest_name_bytes_max),
                              view.leader->epoch),
                  /*is_orderly=*/false, actions);
  }
  must_look_ = false;
  if (tenure_->seen(view.header.term) && is_leading()) {
    actions.emplace_back(contest::Renewed{tenure_->until()});
  }
  tell_cluster(view.cluster, actions);
}

void Contest::hear_keep_alive(TimePoint now, const Asked& asked, const etcd::KeptAlive& kept) {
  if (!has_won() || kept.lease != tenure_->renewed_lease()) return;
  if (kept.ttl_seconds > 0) {
    return tenure_->renewed(asked.sent, lease_time(kept.ttl_seconds));
  }
  // It is gone, and so is the key, or whoever says so has not heard of it yet.
  must_look_ = true;
  lanes_.turn_from(asked);
  tenure_->renewal_failed(now + bounds::etcd_round_pause);
}

// While it is raised no change is taken, be it that none is asked for now.
void Contest::hear_alarms(TimePoint now, const Asked& asked, const etcd::Alarms& alarms,
                          Actions& actions) {
  alarms_at_ = now + bounds::etcd_alarm_pause;
  if (!alarms.has_no_space) {
    if (std::exchange(is_alarmed_, false) && std::exchange(is_unwritable_, false)) {
      actions.emplace_back(contest::Writable{});
    }
    return;
  }
  is_alarmed_ = true;
  if (std::exchange(is_unwritable_, true)) return;
  const etcd::Failure failed{etcd::Failure::Kind::no_space, "alarm NOSPACE is raised"};
  actions.emplace_back(contest::Unwritable{
      etcd::describe(failed, options_.endpoints[asked.endpoint]), /*is_refused=*/true});
}

void Contest::hear_load(TimePoint now, const etcd::Decided& decided, Actions& actions) {
  const auto& page = decided.outcomes.front();
  for (const auto& pair : page.pairs) {
    const auto name = options_.keys.name_of_record(pair.key);
    if (!name) continue;
    sizes_.found(*name, pair.value.size());
    loaded_.push_back({*name, pair.value});
  }
  if (sizes_.count() > 2 * bounds::contest_records_max ||
      sizes_.bytes() > 2 * bounds::contest_records_bytes_max) {
    let_go(now);
    return bar(fmt::format("there are more records under \"{}\" in etcd than any cpprun keeps: "
                           "remove what is not ours",
                           options_.keys.records()),
               actions);
  }
  if (page.has_more && !page.pairs.empty()) {
    load_from_ = page.pairs.back().key + '\0';
    return;
  }
  is_loaded_ = true;
}

// It is asked for again, unless it would be in vain: then others may have a better right to read.
void Contest::fail_to_load(TimePoint now, etcd::Failure::Kind kind) {
  using Kind = etcd::Failure::Kind;
  if (kind != Kind::forbidden && kind != Kind::rejected) return;
  not_before_ = now + bounds::contest_seldom_look_pause;
  let_go(now);
}

// From here on nobody else has everything, and etcd says so.
void Contest::take_over(Actions& actions) {
  phase_.become(Phase::leading);
  told_leader_.reset();
  told_nobody_ = false;
  actions.emplace_back(contest::Found{names_before_, std::exchange(loaded_, {})});
  actions.emplace_back(contest::Leads{fence_.epoch(), tenure_->until()});
  tell_will(actions);
  alarms_at_ = tenure_->lease().confirmed + bounds::etcd_alarm_pause;
}

// Those who have everything, as farewell() would say it now. A standby that is no longer one of
// them is waited for until the change is written, and so is not named here any more by then.
void Contest::tell_will(Actions& actions) const {
  Synced last = own_synced(tenure_->lease());
  last.is_vacant = true;
  actions.emplace_back(contest::Will{fence_.epoch(), to_json(last)});
}

void Contest::depose(TimePoint now, std::string reason, bool is_orderly, Actions& actions) {
  if (is_leading()) actions.emplace_back(contest::Deposed{std::move(reason), is_orderly});
  let_go(now);
}

void Contest::let_go(TimePoint now) {
  if (phase_ == Phase::loading) {
    idle_epoch_ = fence_.epoch();
    idle_names_ = names_before_;
  }
  if (tenure_) {
    put_away(tenure_->lease().id, now, has_won() ? std::optional(farewell()) : std::nullopt);
    if (tenure_->next()) put_away(tenure_->next()->id, now);
  }
  tenure_.reset();
  fenced_.reset();
  queue_.clear();
  sizes_.clear();
  loaded_.clear();
  heir_.clear();
  lanes_.begin_life();
  phase_.become(Phase::following);
  look_at_ = now;
  vacant_since_.reset();
  run_at_.reset();
}

// It is taken back, so that nothing of it is in anybody's way; what cannot be taken back ends by
// itself.
void Contest::put_away(etcd::LeaseId lease, TimePoint now,
                       std::optional<etcd::Transaction> farewell) {
  constexpr std::size_t kept_max = 16;  // of one after the other in an etcd that answers nothing
  if (unused_.size() >= kept_max && lanes_.is_idle(Lane::writes)) unused_.pop_front();
  unused_.push_back({lease, now, std::move(farewell)});
}

// Whoever says that decides nothing any more, and whenever it arrives, if nobody else leads by
// then, the next one need not wait for the end of a right.
etcd::Transaction Contest::farewell() const {
  const ContestKeys& keys = options_.keys;
  const bool withdraws = !is_wanted_ && phase_ == Phase::leaving && heir_.empty();
  if (options_.leaves_nothing && withdraws && sizes_.count() == 0) {
    return {.compares = {{keys.leader(), etcd::Compare::Target::created, fence_.epoch()}},
            .success = {etcd::Delete{keys.leader()}, etcd::Delete{keys.synced()},
                        etcd::Delete{keys.turn()}, etcd::Delete{keys.cluster()}}};
  }
  Synced last = own_synced(tenure_->lease());
  // Where it has never led, those who had everything have it still.
  if (phase_ == Phase::loading) last.names = names_before_;
  last.is_vacant = true;
  last.heir = heir_;
  return resignation(keys, fence_.epoch(), to_json(last));
}

}  // namespace cpprun
