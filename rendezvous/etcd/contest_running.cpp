// SPDX-License-Identifier: BSD-3-Clause
// A Contest that follows, and one that wants to lead.
#include <fmt/format.h>

#include <utility>

#include "rendezvous/etcd/contest.h"

namespace cpprun {

using Kind = etcd::Failure::Kind;

void Contest::hear_look(TimePoint now, const Asked& asked, const etcd::Decided& decided,
                        Actions& actions) {
  auto view = read_view(options_.keys, decided.header, decided.outcomes);
  if (!view) return see_strange(now, view.error().reason, actions);
  if (has_won()) return see_own(now, asked, *view, actions);
  // A look that was under way when it began to stand may be from before.
  if (phase_ == Phase::standing || phase_ == Phase::granting) return;
  if (phase_ == Phase::finding_out) return settle(now, *std::move(view), actions);
  see(now, *std::move(view), actions);
  // It was under way when somebody had reason to look: what it shows may be from before.
  if (attended_at_ && asked.sent < *attended_at_) look_at_ = now;
}

void Contest::see_strange(TimePoint now, const std::string& reason, Actions& actions) {
  look_at_ = now + look_pause(now);
  if (has_won()) depose(now, reason, /*is_orderly=*/false, actions);
  if (tenure_) let_go(now);
  view_.reset();
  vacant_since_.reset();
  run_at_.reset();
  bar(reason, actions);
}

void Contest::see(TimePoint now, ContestView view, Actions& actions) {
  look_at_ = now + look_pause(now);
  const bool is_other = !view_ || view_->synced_changed != view.synced_changed;
  view_ = std::move(view);
  // From here on the last leader's right cannot have been longer than its lease.
  if (view_->leader) vacant_since_.reset();
  if (!view_->leader && (is_other || !vacant_since_)) vacant_since_ = now;
  if (options_.leaves_nothing && begins_anew(*view_, options_.memory)) {
    options_.memory.cluster.clear();
    bar(std::nullopt, actions);
  } else {
    bar(objection_to(*view_, options_.memory, options_.keys), actions);
  }
  run_at_.reset();
  if (barred_) return;
  if (vacant_since_) {
    run_at_ =
        std::max(*vacant_since_ + wait_to_run(*view_, options_.name, options_.ttl), not_before_);
  }
  tell_cluster(view_->cluster, actions);
  tell_who_leads(actions);
}

void Contest::tell_cluster(const std::string& cluster, Actions& actions) {
  if (cluster.empty() || cluster == told_cluster_) return;
  told_cluster_ = cluster;
  options_.memory.cluster = cluster;
  actions.emplace_back(contest::ClusterIs{cluster});
}

void Contest::tell_who_leads(Actions& actions) {
  if (!view_->leader) {
    told_leader_.reset();
    if (std::exchange(told_nobody_, true)) return;
    const bool is_left = view_->synced && view_->synced->is_vacant;
    actions.emplace_back(contest::NobodyLeads{is_left ? view_->synced->heir : std::string()});
    return;
  }
  const auto& leader = *view_->leader;
  const bool is_new = leader.epoch > options_.memory.epoch;
  options_.memory.epoch = std::max(options_.memory.epoch, leader.epoch);
  contest::LeaderIs is{leader.epoch, leader.card.name, leader.card.card,
                       view_->synced ? view_->synced->names : std::vector<std::string>()};
  told_nobody_ = false;
  if (told_leader_ == is) return;
  // Somebody could write to win.
  if (is_new && std::exchange(is_unwritable_, false)) actions.emplace_back(contest::Writable{});
  told_leader_ = is;
  actions.emplace_back(std::move(is));
}

void Contest::bar(const std::optional<std::string>& reason, Actions& actions) {
  const bool was_barred = barred_.has_value();
  barred_ = reason;
  if (was_barred == barred_.has_value()) return;
  if (!barred_) {
    actions.emplace_back(contest::Unbarred{});
    return;
  }
  told_leader_.reset();
  told_nobody_ = false;
  actions.emplace_back(contest::Barred{*barred_});
}

// --- a lease, and standing with it ---------------------------------------------------------------

void Contest::hear_grant(TimePoint now, const Asked& asked, const etcd::Granted& granted) {
  const bool is_wanted_still = lanes_.is_of_this_life(asked) && may_run();
  const Duration ttl = lease_time(granted.ttl_seconds);
  if (phase_ == Phase::granting) {
    tenure_.emplace(GrantedLease{granted.lease, ttl, asked.sent, view_->header.term});
    if (!is_wanted_still) return let_go(now);
    return phase_.become(Phase::standing);
  }
  if (phase_ != Phase::leading || !is_wanted_still) return put_away(granted.lease, now);
  tenure_->take_next({granted.lease, ttl, asked.sent, tenure_->term()});
}

etcd::Request Contest::request_to_stand() {
  using Target = etcd::Compare::Target;
  const ContestKeys& keys = options_.keys;
  names_ = {options_.name};
  names_before_ = view_->synced ? view_->synced->complete() : std::vector<std::string>();
  // It has won before, and never led.
  if (view_->synced && view_->synced->epoch == idle_epoch_) names_before_ = idle_names_;
  const auto& lease = tenure_->lease();
  Synced synced = own_synced(lease);
  synced.before = names_before_;
  synced.epoch = 0;  // It is not known before etcd has decided.
  etcd::Transaction win{
      .compares = {{keys.leader(), Target::created, 0},
                   {keys.synced(), Target::changed, view_->synced_changed}},
      .success = {etcd::Put{keys.leader(), to_json(LeaderCard{options_.name, options_.card}),
                            lease.id},
                  etcd::Put{keys.synced(), to_json(synced)}, Fence::first_turn(keys)},
      .otherwise = view_reads(keys)};
  if (view_->cluster.empty()) {
    win.compares.push_back({keys.cluster(), Target::created, 0});
    win.success.emplace_back(etcd::Put{keys.cluster(), new_cluster_});
  } else {
    win.compares.push_back({keys.cluster(), Target::value, 0, view_->cluster});
  }
  return win;
}

void Contest::hear_stand(TimePoint now, const etcd::Decided& decided, Actions& actions) {
  if (decided.succeeded) return win(now, decided.header.revision, actions);
  auto view = read_view(options_.keys, decided.header, decided.outcomes);
  if (!view) return see_strange(now, view.error().reason, actions);
  settle(now, *std::move(view), actions);
}

void Contest::fail_to_stand(TimePoint now, Kind kind) {
  // It may have won already, or may win yet.
  if (etcd::may_have_happened(kind)) return phase_.become(Phase::finding_out);
  if (kind == Kind::unreachable && is_fresh(now)) return;
  not_before_ = now + bounds::etcd_round_pause;
  let_go(now);
}

// It has not won the last time, or does not know.
void Contest::settle(TimePoint now, ContestView view, Actions& actions) {
  if (view.leader && tenure_->owns(view.leader->lease)) {
    return win(now, view.leader->epoch, actions);
  }
  see(now, std::move(view), actions);
  // The transaction of which nothing is known can still win: with this lease, which is one's own.
  const bool is_my_turn = may_run() && run_at_ && *run_at_ <= now && is_fresh(now);
  if (!is_my_turn) return let_go(now);
  phase_.become(Phase::standing);
}

// Half of a lease is enough to win and to renew it.
bool Contest::is_fresh(TimePoint now) const {
  return now < tenure_->lease().confirmed + tenure_->lease().ttl / 2;
}

void Contest::win(TimePoint now, etcd::Revision epoch, Actions& actions) {
  if (epoch <= options_.memory.epoch) {
    bar(fmt::format("it has won epoch {} under \"{}\" in etcd, where {} was seen before: was it "
                    "restored from an old snapshot? Start every cpprund of this cluster anew, with "
                    "an empty --state where it has one",
                    epoch, options_.keys.prefix(), options_.memory.epoch),
        actions);
  }
  if (!may_run() || now >= tenure_->until()) return let_go(now);
  options_.memory.epoch = epoch;
  phase_.become(Phase::loading);
  fence_ = Fence(epoch);
  must_look_ = false;
  move_at_ = TimePoint::min();
  is_loaded_ = false;
  load_from_ = options_.keys.records();
  told_written_ = queue_.through();
}

}  // namespace cpprun
