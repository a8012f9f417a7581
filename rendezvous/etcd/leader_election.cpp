// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/leader_election.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "proto/link/bounds.h"
#include "proto/state_machine.h"
#include "proto/text.h"
#include "rendezvous/etcd/bounds.h"

namespace cpprun {

namespace {

using Phase = LeaderElection::Phase;
using Kind = etcd::Failure::Kind;
using Step = AskLanes::Step;

constexpr std::array<PhaseStep<Phase>, 14> allowed_steps = {{
    {Phase::following, Phase::granting},
    {Phase::granting, Phase::standing},
    {Phase::granting, Phase::following},
    {Phase::standing, Phase::finding_out},
    {Phase::standing, Phase::loading},
    {Phase::standing, Phase::following},
    {Phase::finding_out, Phase::standing},
    {Phase::finding_out, Phase::loading},
    {Phase::finding_out, Phase::following},
    {Phase::loading, Phase::leading},
    {Phase::loading, Phase::following},
    {Phase::leading, Phase::leaving},
    {Phase::leading, Phase::following},
    {Phase::leaving, Phase::following},
}};

// Or part of a campaign.
bool is_change(Step step) {
  return step != Step::look && step != Step::keep_alive && step != Step::revoke &&
         step != Step::alarms;
}

}  // namespace

const PhaseOf<Phase>::Steps LeaderElection::steps = allowed_steps;

std::optional<std::string> impossible(const ElectionOptions& options) {
  if (options.name.empty() || options.name.size() > bounds::election_name_bytes_max) {
    return fmt::format(
        "a name must have 1 to {} bytes, and \"{}\" has {}", bounds::election_name_bytes_max,
        plain_line(options.name, bounds::election_name_bytes_max), options.name.size());
  }
  if (options.card.size() > bounds::election_card_bytes_max) {
    return fmt::format("the address of the leader has {} bytes, and the maximum is {}",
                       options.card.size(), bounds::election_card_bytes_max);
  }
  if (options.endpoints.empty()) return "no etcd endpoint is given";
  if (options.ttl < bounds::election_ttl_min || options.ttl > bounds::election_ttl_max) {
    return fmt::format("a lease of {} s is not within {:.0f} to {:.0f} s", in_seconds(options.ttl),
                       in_seconds(bounds::election_ttl_min), in_seconds(bounds::election_ttl_max));
  }
  return std::nullopt;
}

LeaderElection::LeaderElection(ElectionOptions options)
    : options_(std::move(options)),
      numbers_(options_.seed),
      lanes_(options_.endpoints.size()),
      new_cluster_(fmt::format("{:016x}{:016x}", numbers_.next(), numbers_.next())) {}

LeaderElection::Actions LeaderElection::handle(TimePoint now, const Event& event) {
  Actions actions;
  // Whatever the event, and however late it is processed: an expired lease takes effect first.
  expire(now, actions);
  std::visit([&](const auto& each) { hear(now, each, actions); }, event);
  go_on(now, actions);
  return actions;
}

LeaderElection::Actions LeaderElection::advance(TimePoint now) {
  Actions actions;
  expire(now, actions);
  go_on(now, actions);
  return actions;
}

void LeaderElection::expire(TimePoint now, Actions& actions) {
  if (!has_won() || now < leader_lease_->until()) return;
  depose(now,
         fmt::format("etcd has not confirmed the leader's lease for {:.1f} s{}{}",
                     in_seconds(now - leader_lease_->lease().confirmed),
                     trouble_.empty() ? "" : ": ", trouble_),
         /*is_orderly=*/false, actions);
}

// --- events of the owner -------------------------------------------------------------------------

void LeaderElection::hear(TimePoint now, const election::Enter&, Actions&) {
  is_wanted_ = true;
  withdrawn_by_.reset();
  // The last view may be outdated.
  run_at_.reset();
  look_at_ = now;
}

void LeaderElection::hear(TimePoint now, const election::Withdraw&, Actions& actions) {
  is_wanted_ = false;
  withdrawn_by_ = now + 2 * options_.ttl;
  if (phase_ == Phase::leading) return end_orderly({}, "the leader resigned", actions);
  if (phase_ == Phase::loading) let_go(now);
}

void LeaderElection::hear(TimePoint now, const election::Attend&, Actions&) {
  look_at_ = now;
  attended_at_ = now;
  eager_until_ = now + bounds::election_eager_time;
}

// --- replies of etcd -----------------------------------------------------------------------------

void LeaderElection::hear(TimePoint now, const election::Answered& answered, Actions& actions) {
  const auto asked = lanes_.take(answered.id);
  if (!asked) return;
  if (answered.heard) {
    lanes_.succeeded(*asked);
    note_success(now, *asked, actions);
    return hear_step(now, *asked, *answered.heard, actions);
  }
  const etcd::Failure& failed = answered.heard.error();
  note_failure(now, *asked, failed, actions);
  fail_step(now, *asked, failed.kind, actions);
}

void LeaderElection::hear_step(TimePoint now, const Asked& asked, const etcd::Answer& answer,
                               Actions& actions) {
  const bool is_of_now = lanes_.is_of_this_life(asked);
  switch (asked.step) {
    case Step::look:
      return hear_look(now, asked, std::get<etcd::Decided>(answer), actions);
    case Step::grant:
      return hear_grant(now, asked, std::get<etcd::Granted>(answer));
    case Step::resign:
      return unused_.front().resignation.reset();
    case Step::revoke:
      return unused_.pop_front();
    case Step::keep_alive:
      if (is_of_now) hear_keep_alive(now, asked, std::get<etcd::KeptAlive>(answer));
      return;
    case Step::stand:
      if (is_of_now) hear_stand(now, std::get<etcd::Decided>(answer), actions);
      return;
    case Step::load:
      if (is_of_now) hear_load(now, std::get<etcd::Decided>(answer), actions);
      return;
    case Step::alarms:
      if (is_of_now) hear_alarms(now, asked, std::get<etcd::Alarms>(answer), actions);
      return;
    case Step::take_over:
    case Step::write:
    case Step::move:
      if (is_of_now) hear_fenced(now, asked, std::get<etcd::Decided>(answer), actions);
      return;
  }
}

void LeaderElection::note_success(TimePoint now, const Asked& asked, Actions& actions) {
  if (asked.lane == Lane::lease) heard_at_ = now;
  if (is_change(asked.step)) {
    is_alarmed_ = false;
    if (std::exchange(is_unwritable_, false)) actions.emplace_back(election::Writable{});
  } else if (asked.lane == Lane::lease) {
    if (std::exchange(is_unreachable_, false)) actions.emplace_back(election::Reachable{});
  }
}

void LeaderElection::note_failure(TimePoint now, const Asked& asked, const etcd::Failure& failed,
                                  Actions& actions) {
  if (asked.step == Step::revoke && failed.kind == Kind::no_such_lease) return;
  // If etcd does not allow reading alarms, nothing changes.
  if (asked.step == Step::alarms) {
    return lanes_.failed(now, asked, etcd::is_of_this_member(failed.kind), /*rests=*/false);
  }
  trouble_ = etcd::describe(failed, options_.endpoints[asked.endpoint]);
  const bool is_of_member = etcd::is_of_this_member(failed.kind);
  // The lease has to be renewed regardless, so these do not pause the lane.
  const bool rests = asked.step != Step::grant && asked.step != Step::stand;
  lanes_.failed(now, asked, is_of_member, rests);
  const bool is_everywhere = lanes_.has_failed_everywhere(asked.lane);
  if (is_change(asked.step)) {
    if (is_unwritable_ || failed.kind == Kind::no_such_lease) return;
    if (is_of_member && (is_unreachable_ || !is_everywhere)) return;
    is_unwritable_ = true;
    actions.emplace_back(election::Unwritable{trouble_, !is_of_member});
  } else if (asked.lane == Lane::lease && lanes_.has_failed_in_most(Lane::lease) &&
             !is_unreachable_) {
    is_unreachable_ = true;
    actions.emplace_back(
        election::Unreachable{trouble_, heard_at_ ? now - *heard_at_ : Duration{}});
  }
}

void LeaderElection::fail_step(TimePoint now, const Asked& asked, Kind kind, Actions& actions) {
  const bool is_of_now = lanes_.is_of_this_life(asked);
  switch (asked.step) {
    case Step::look:
    case Step::keep_alive:
      if (has_won()) leader_lease_->renewal_failed(now);
      return;
    case Step::grant:
      if (etcd::may_have_happened(kind)) revoke(asked_lease_, now);
      move_at_ = now + options_.ttl / 2;
      not_before_ = now + bounds::etcd_round_pause;
      if (phase_ == Phase::granting) phase_.become(Phase::following);
      return;
    case Step::stand:
      return fail_to_stand(now, kind);
    case Step::resign:
      // Gives up the resignation: the key expires with the lease.
      if (!etcd::is_of_this_member(kind)) return unused_.front().resignation.reset();
      return wait_with_unused(now);
    case Step::revoke:
      if (kind == Kind::no_such_lease) return unused_.pop_front();
      return wait_with_unused(now);
    case Step::load:
      if (is_of_now) fail_to_load(now, kind);
      return;
    case Step::alarms:
      alarms_at_ = now + bounds::etcd_alarm_pause;
      return;
    case Step::take_over:
    case Step::write:
    case Step::move:
      if (is_of_now) fail_fenced(now, asked.step, kind, actions);
      return;
  }
}

void LeaderElection::wait_with_unused(TimePoint now) {
  unused_.front().ready = now + bounds::etcd_round_pause;
  std::ranges::rotate(unused_, unused_.begin() + 1);
}

// --- consequences --------------------------------------------------------------------------------

void LeaderElection::go_on(TimePoint now, Actions& actions) {
  // All earlier changes are written.
  if (phase_ == Phase::leaving && !queue_.has_more() && !fenced_) let_go(now);
  if (lanes_.is_ready(Lane::writes, now)) {
    if (const auto step = next_writes_step(now)) ask(now, Lane::writes, *step, actions);
  }
  if (lanes_.is_ready(Lane::lease, now)) {
    if (const auto step = next_lease_step(now)) ask(now, Lane::lease, *step, actions);
  }
  finish(now, actions);
}

void LeaderElection::finish(TimePoint now, Actions& actions) {
  if (!withdrawn_by_ || phase_ != Phase::following) return;
  const bool is_clean =
      unused_.empty() && lanes_.is_idle(Lane::writes) && !lanes_.is_asked(Lane::lease, Step::grant);
  // If etcd does not revoke the lease, it expires by itself.
  if (!is_clean && now < *withdrawn_by_) return;
  withdrawn_by_.reset();
  actions.emplace_back(election::Withdrawn{});
}

// --- the next request, and when ------------------------------------------------------------------

namespace {

constexpr TimePoint at_once = TimePoint::min();

// Bytes of the request, or for reads an estimate of the reply.
std::size_t bytes_of(const etcd::Request& request, AskLanes::Step step) {
  if (step == AskLanes::Step::load) {
    return bounds::election_page_records * bounds::election_record_bytes_max / 8;
  }
  std::size_t bytes = 0;
  if (const auto* const transaction = std::get_if<etcd::Transaction>(&request)) {
    for (const auto& each : transaction->success) {
      if (const auto* const put = std::get_if<etcd::Put>(&each)) bytes += put->value.size();
    }
  }
  return bytes;
}

Duration timeout_for(std::size_t bytes, Duration ttl) {
  constexpr std::int64_t mebibyte = 1024 * 1024;
  return bounds::etcd_timeout(ttl) +
         Duration{bounds::etcd_timeout_per_mebibyte} * static_cast<std::int64_t>(bytes) / mebibyte;
}

std::int64_t whole_seconds(Duration duration) {
  return std::chrono::ceil<std::chrono::seconds>(duration).count();
}

}  // namespace

Duration LeaderElection::look_pause(TimePoint now) const {
  return now < eager_until_ ? bounds::election_eager_look_pause
                            : bounds::election_look_pause(options_.ttl);
}

std::optional<TimePoint> LeaderElection::next_deadline() const {
  std::optional<TimePoint> next;
  const auto consider = [&next](std::optional<TimePoint> at) {
    if (at && (!next || *at < *next)) next = at;
  };
  if (has_won()) consider(leader_lease_->until());
  if (lanes_.is_idle(Lane::lease)) {
    if (const auto due = lease_due()) consider(std::max(*due, lanes_.ready_at(Lane::lease)));
  }
  if (lanes_.is_idle(Lane::writes)) {
    if (const auto due = writes_due()) consider(std::max(*due, lanes_.ready_at(Lane::writes)));
  }
  if (phase_ == Phase::following) consider(withdrawn_by_);
  return next;
}

// A new lease is wanted when etcd has elected a leader of its own. It is requested only while no
// write is pending: from its grant on the old lease is not renewed any longer.
bool LeaderElection::wants_next_lease() const {
  return phase_ == Phase::leading && leader_lease_->wants_next() && lanes_.is_idle(Lane::writes) &&
         !fenced_;
}

std::optional<TimePoint> LeaderElection::lease_due() const {
  switch (phase_) {
    case Phase::following:
      return may_run() && run_at_ ? std::min(*run_at_, look_at_) : look_at_;
    case Phase::granting:
      return std::nullopt;
    case Phase::standing:
    case Phase::finding_out:
      return at_once;
    case Phase::loading:
    case Phase::leading:
    case Phase::leaving:
      if (must_look_ || leader_lease_->needs_look()) return at_once;
      return wants_next_lease() ? std::min(move_at_, leader_lease_->renew_at())
                                : leader_lease_->renew_at();
  }
  return std::nullopt;
}

std::optional<LeaderElection::Step> LeaderElection::next_lease_step(TimePoint now) const {
  const auto due = lease_due();
  if (!due || *due > now) return std::nullopt;
  switch (phase_) {
    case Phase::following:
      return may_run() && run_at_ && *run_at_ <= now ? Step::grant : Step::look;
    case Phase::granting:
      return std::nullopt;
    case Phase::standing:
      return Step::stand;
    case Phase::finding_out:
      return Step::look;
    case Phase::loading:
    case Phase::leading:
    case Phase::leaving:
      if (must_look_ || leader_lease_->needs_look()) return Step::look;
      return leader_lease_->renew_at() <= now ? Step::keep_alive : Step::grant;
  }
  return std::nullopt;
}

std::optional<TimePoint> LeaderElection::writes_due() const {
  // A write started while a lease is requested would delay the move to it.
  const bool may_write = has_won() && !lanes_.is_asked(Lane::lease, Step::grant);
  if (may_write &&
      (fenced_ || phase_ == Phase::loading || leader_lease_->next() || queue_.has_more())) {
    return at_once;
  }
  const auto alarms = phase_ == Phase::leading ? std::optional(alarms_at_) : std::nullopt;
  if (unused_.empty()) return alarms;
  return alarms ? std::min(*alarms, unused_.front().ready) : unused_.front().ready;
}

std::optional<LeaderElection::Step> LeaderElection::next_writes_step(TimePoint now) const {
  const auto due = writes_due();
  if (!due || *due > now) return std::nullopt;
  if (has_won() && !lanes_.is_asked(Lane::lease, Step::grant)) {
    if (fenced_) return fenced_->step;
    if (phase_ == Phase::loading) return is_loaded_ ? Step::take_over : Step::load;
    if (phase_ == Phase::leading && leader_lease_->next()) return Step::move;
    if (queue_.has_more()) return Step::write;
  }
  if (unused_.empty() || unused_.front().ready > now) {
    return phase_ == Phase::leading && alarms_at_ <= now ? std::optional(Step::alarms)
                                                         : std::nullopt;
  }
  return unused_.front().resignation ? Step::resign : Step::revoke;
}

void LeaderElection::ask(TimePoint now, Lane lane, Step step, Actions& actions) {
  auto request = request_for(step, actions);
  const Duration timeout = timeout_for(bytes_of(request, step), options_.ttl);
  actions.emplace_back(lanes_.ask(now, lane, step, std::move(request), timeout));
}

etcd::Request LeaderElection::request_for(Step step, Actions& actions) {
  switch (step) {
    case Step::look:
      return etcd::Transaction{.success = view_reads(options_.keys)};
    case Step::keep_alive:
      return etcd::KeepAlive{leader_lease_->renewed_lease()};
    case Step::grant:
      if (phase_ == Phase::following) phase_.become(Phase::granting);
      // Chosen here, so that the lease can be revoked even if the reply is lost.
      asked_lease_ = numbers_.positive();
      return etcd::Grant{asked_lease_, whole_seconds(options_.ttl)};
    case Step::stand:
      return request_to_stand();
    case Step::load:
      return etcd::Transaction{
          .success = {etcd::Read{load_from_, options_.keys.records_end(),
                                 static_cast<std::int64_t>(bounds::election_page_records)}}};
    case Step::take_over:
    case Step::write:
    case Step::move:
      return fenced_request(step, actions);
    case Step::resign:
      return *unused_.front().resignation;
    case Step::revoke:
      return etcd::Revoke{unused_.front().id};
    case Step::alarms:
      return etcd::GetAlarms{};
  }
  return etcd::Revoke{};
}

// --- following and campaigning -------------------------------------------------------------------

void LeaderElection::hear_look(TimePoint now, const Asked& asked, const etcd::Decided& decided,
                               Actions& actions) {
  auto view = read_view(options_.keys, decided.header, decided.outcomes);
  if (!view) return see_strange(now, view.error().reason, actions);
  if (has_won()) return see_own(now, asked, *view, actions);
  // A read that was pending when the campaign started may be outdated.
  if (phase_ == Phase::standing || phase_ == Phase::granting) return;
  if (phase_ == Phase::finding_out) return adopt_view(now, *std::move(view), actions);
  see(now, *std::move(view), actions);
  // The read was already pending when the owner asked for news, so its result may be outdated.
  if (attended_at_ && asked.sent < *attended_at_) look_at_ = now;
}

void LeaderElection::see_strange(TimePoint now, const std::string& reason, Actions& actions) {
  look_at_ = now + look_pause(now);
  if (has_won()) depose(now, reason, /*is_orderly=*/false, actions);
  if (leader_lease_) let_go(now);
  view_.reset();
  vacant_since_.reset();
  run_at_.reset();
  bar(reason, actions);
}

void LeaderElection::see(TimePoint now, ElectionView view, Actions& actions) {
  look_at_ = now + look_pause(now);
  const bool is_other = !view_ || view_->synced_changed != view.synced_changed;
  view_ = std::move(view);
  // The last leader's leadership ends no later than a lease from here on.
  if (view_->leader) vacant_since_.reset();
  if (!view_->leader && (is_other || !vacant_since_)) vacant_since_ = now;
  if (options_.leaves_nothing && begins_anew(*view_, memory_)) {
    memory_.cluster.clear();
    bar(std::nullopt, actions);
  } else {
    bar(objection_to(*view_, memory_, options_.keys), actions);
  }
  run_at_.reset();
  if (barred_) return;
  if (vacant_since_) {
    run_at_ =
        std::max(*vacant_since_ + wait_to_run(*view_, options_.name, options_.ttl), not_before_);
  }
  if (!view_->cluster.empty()) memory_.cluster = view_->cluster;
  tell_who_leads(actions);
}

void LeaderElection::tell_who_leads(Actions& actions) {
  if (!view_->leader) {
    reported_leader_.reset();
    if (std::exchange(reported_no_leader_, true)) return;
    const bool is_left = view_->synced && view_->synced->is_vacant;
    actions.emplace_back(election::NoLeader{is_left ? view_->synced->successor : std::string()});
    return;
  }
  const auto& leader = *view_->leader;
  const bool is_new = leader.epoch > memory_.epoch;
  memory_.epoch = std::max(memory_.epoch, leader.epoch);
  election::LeaderIs is{leader.epoch, leader.card.name, leader.card.card,
                        view_->synced ? view_->synced->names : std::vector<std::string>()};
  reported_no_leader_ = false;
  if (reported_leader_ == is) return;
  // Another candidate won, so writes work.
  if (is_new && std::exchange(is_unwritable_, false)) actions.emplace_back(election::Writable{});
  reported_leader_ = is;
  actions.emplace_back(std::move(is));
}

void LeaderElection::bar(const std::optional<std::string>& reason, Actions& actions) {
  const bool was_barred = barred_.has_value();
  barred_ = reason;
  if (was_barred == barred_.has_value()) return;
  if (!barred_) {
    actions.emplace_back(election::Unbarred{});
    return;
  }
  reported_leader_.reset();
  reported_no_leader_ = false;
  actions.emplace_back(election::Inconsistent{*barred_});
}

// --- a lease, and the campaign with it -----------------------------------------------------------

void LeaderElection::hear_grant(TimePoint now, const Asked& asked, const etcd::Granted& granted) {
  const bool is_wanted_still = lanes_.is_of_this_life(asked) && may_run();
  const Duration ttl = lease_time(granted.ttl_seconds);
  if (phase_ == Phase::granting) {
    leader_lease_.emplace(GrantedLease{granted.lease, ttl, asked.sent, view_->header.term});
    if (!is_wanted_still) return let_go(now);
    return phase_.become(Phase::standing);
  }
  if (phase_ != Phase::leading || !is_wanted_still) return revoke(granted.lease, now);
  leader_lease_->take_next({granted.lease, ttl, asked.sent, leader_lease_->term()});
}

etcd::Request LeaderElection::request_to_stand() {
  using Target = etcd::Compare::Target;
  const ElectionKeys& keys = options_.keys;
  names_ = {options_.name};
  names_before_ = view_->synced ? view_->synced->complete() : std::vector<std::string>();
  // It has won before, but never led.
  if (view_->synced && view_->synced->epoch == idle_epoch_) names_before_ = idle_names_;
  const auto& lease = leader_lease_->lease();
  Synced synced = own_synced(lease);
  synced.before = names_before_;
  synced.epoch = 0;  // unknown until etcd has decided
  etcd::Transaction win{
      .compares = {{keys.leader(), Target::created, 0},
                   {keys.synced(), Target::changed, view_->synced_changed}},
      .success = {etcd::Put{keys.leader(), to_json(LeaderCard{options_.name, options_.card}),
                            lease.id},
                  etcd::Put{keys.synced(), to_json(synced)}, FencingToken::first_turn(keys)},
      .otherwise = view_reads(keys)};
  if (view_->cluster.empty()) {
    win.compares.push_back({keys.cluster(), Target::created, 0});
    win.success.emplace_back(etcd::Put{keys.cluster(), new_cluster_});
  } else {
    win.compares.push_back({keys.cluster(), Target::value, 0, view_->cluster});
  }
  return win;
}

void LeaderElection::hear_stand(TimePoint now, const etcd::Decided& decided, Actions& actions) {
  if (decided.succeeded) return win(now, decided.header.revision, actions);
  auto view = read_view(options_.keys, decided.header, decided.outcomes);
  if (!view) return see_strange(now, view.error().reason, actions);
  adopt_view(now, *std::move(view), actions);
}

void LeaderElection::fail_to_stand(TimePoint now, Kind kind) {
  // It may have won already, or may still win.
  if (etcd::may_have_happened(kind)) return phase_.become(Phase::finding_out);
  if (kind == Kind::unreachable && is_fresh(now)) return;
  not_before_ = now + bounds::etcd_round_pause;
  let_go(now);
}

// It has not won, or does not know yet.
void LeaderElection::adopt_view(TimePoint now, ElectionView view, Actions& actions) {
  if (view.leader && leader_lease_->owns(view.leader->lease)) {
    return win(now, view.leader->epoch, actions);
  }
  see(now, std::move(view), actions);
  // The transaction with the unknown outcome can still win, with the same lease; standing again is
  // safe.
  const bool is_my_turn = may_run() && run_at_ && *run_at_ <= now && is_fresh(now);
  if (!is_my_turn) return let_go(now);
  phase_.become(Phase::standing);
}

// Half of the lease is enough to win and to renew it.
bool LeaderElection::is_fresh(TimePoint now) const {
  return now < leader_lease_->lease().confirmed + leader_lease_->lease().ttl / 2;
}

void LeaderElection::win(TimePoint now, etcd::Revision epoch, Actions& actions) {
  if (epoch <= memory_.epoch) {
    bar(fmt::format("etcd returned epoch {} for \"{}\", but epoch {} before: etcd was restored "
                    "from an old snapshot; restart every cpprund of this cluster",
                    epoch, options_.keys.prefix(), memory_.epoch),
        actions);
  }
  if (!may_run() || now >= leader_lease_->until()) return let_go(now);
  memory_.epoch = epoch;
  phase_.become(Phase::loading);
  fence_ = FencingToken(epoch);
  must_look_ = false;
  move_at_ = TimePoint::min();
  is_loaded_ = false;
  load_from_ = options_.keys.records();
  told_written_ = queue_.through();
}

// --- after winning -------------------------------------------------------------------------------

void LeaderElection::see_own(TimePoint now, const Asked& asked, const ElectionView& view,
                             Actions& actions) {
  // The read was sent before it won.
  if (!lanes_.is_of_this_life(asked)) return;
  if (const auto objection = objection_to(view, {memory_.cluster, 0}, options_.keys)) {
    depose(now, *objection, /*is_orderly=*/false, actions);
    return bar(objection, actions);
  }
  if (!view.leader) {
    return depose(now,
                  "the leader's key in etcd is gone: its lease has ended, or the key was deleted",
                  /*is_orderly=*/false, actions);
  }
  if (view.leader->epoch != fence_.epoch() || !leader_lease_->owns(view.leader->lease)) {
    return depose(now,
                  fmt::format("\"{}\" has been the leader since epoch {}",
                              plain_line(view.leader->card.name, bounds::election_name_bytes_max),
                              view.leader->epoch),
                  /*is_orderly=*/false, actions);
  }
  must_look_ = false;
  if (leader_lease_->seen(view.header.term) && is_leading()) {
    actions.emplace_back(election::Renewed{leader_lease_->until()});
  }
  if (!view.cluster.empty()) memory_.cluster = view.cluster;
}

void LeaderElection::hear_keep_alive(TimePoint now, const Asked& asked,
                                     const etcd::KeptAlive& kept) {
  if (!has_won() || kept.lease != leader_lease_->renewed_lease()) return;
  if (kept.ttl_seconds > 0) {
    return leader_lease_->renewed(asked.sent, lease_time(kept.ttl_seconds));
  }
  // The lease and the key are gone, or that member is not up to date.
  must_look_ = true;
  lanes_.turn_from(asked);
  leader_lease_->renewal_failed(now + bounds::etcd_round_pause);
}

// While NOSPACE is raised etcd takes no change, even if none is pending now.
void LeaderElection::hear_alarms(TimePoint now, const Asked& asked, const etcd::Alarms& alarms,
                                 Actions& actions) {
  alarms_at_ = now + bounds::etcd_alarm_pause;
  if (!alarms.has_no_space) {
    if (std::exchange(is_alarmed_, false) && std::exchange(is_unwritable_, false)) {
      actions.emplace_back(election::Writable{});
    }
    return;
  }
  is_alarmed_ = true;
  if (std::exchange(is_unwritable_, true)) return;
  const etcd::Failure failed{etcd::Failure::Kind::no_space, "alarm NOSPACE is raised"};
  actions.emplace_back(election::Unwritable{
      etcd::describe(failed, options_.endpoints[asked.endpoint]), /*is_refused=*/true});
}

void LeaderElection::hear_load(TimePoint now, const etcd::Decided& decided, Actions& actions) {
  const auto& page = decided.outcomes.front();
  for (const auto& pair : page.pairs) {
    const auto name = options_.keys.name_of_record(pair.key);
    if (!name) continue;
    sizes_.found(*name, pair.value.size());
    loaded_[*name] = pair.value;
  }
  if (sizes_.count() > 2 * bounds::election_records_max ||
      sizes_.bytes() > 2 * bounds::election_records_bytes_max) {
    let_go(now);
    return bar(fmt::format(
                   "etcd has too many records under \"{}\"; remove those that cpprun did not write",
                   options_.keys.records()),
               actions);
  }
  if (page.has_more && !page.pairs.empty()) {
    load_from_ = page.pairs.back().key + '\0';
    return;
  }
  is_loaded_ = true;
}

// Retried, unless that is pointless: then another candidate may have the permission to read.
void LeaderElection::fail_to_load(TimePoint now, etcd::Failure::Kind kind) {
  if (kind != Kind::forbidden && kind != Kind::rejected) return;
  not_before_ = now + bounds::election_unfit_pause;
  let_go(now);
}

// From here on it alone is in sync, and etcd says so.
void LeaderElection::take_over(Actions& actions) {
  phase_.become(Phase::leading);
  reported_leader_.reset();
  reported_no_leader_ = false;
  actions.emplace_back(election::Found{names_before_, std::exchange(loaded_, {})});
  actions.emplace_back(election::Leads{fence_.epoch(), leader_lease_->until()});
  tell_will(actions);
  alarms_at_ = leader_lease_->lease().confirmed + bounds::etcd_alarm_pause;
}

// The synced members, as the resignation would list them. A standby that drops out of sync is
// waited for until the change is written, so by then it is not named here.
void LeaderElection::tell_will(Actions& actions) const {
  Synced last = own_synced(leader_lease_->lease());
  last.is_vacant = true;
  actions.emplace_back(election::Will{fence_.epoch(), to_json(last)});
}

void LeaderElection::depose(TimePoint now, std::string reason, bool is_orderly, Actions& actions) {
  if (is_leading()) actions.emplace_back(election::Deposed{std::move(reason), is_orderly});
  let_go(now);
}

void LeaderElection::let_go(TimePoint now) {
  if (phase_ == Phase::loading) {
    idle_epoch_ = fence_.epoch();
    idle_names_ = names_before_;
  }
  if (leader_lease_) {
    revoke(leader_lease_->lease().id, now,
           has_won() ? std::optional(own_resignation()) : std::nullopt);
    if (leader_lease_->next()) revoke(leader_lease_->next()->id, now);
  }
  leader_lease_.reset();
  fenced_.reset();
  queue_.clear();
  sizes_.clear();
  loaded_.clear();
  successor_.clear();
  lanes_.begin_life();
  phase_.become(Phase::following);
  look_at_ = now;
  vacant_since_.reset();
  run_at_.reset();
}

// Revokes a lease, so that it is not in the way of others. If that fails, it expires by itself.
void LeaderElection::revoke(etcd::LeaseId lease, TimePoint now,
                            std::optional<etcd::Transaction> resignation) {
  constexpr std::size_t kept_max = 16;  // limit if etcd does not reply
  if (unused_.size() >= kept_max && lanes_.is_idle(Lane::writes)) unused_.pop_front();
  unused_.push_back({lease, now, std::move(resignation)});
}

// The resignation. Its writer decides nothing any longer. However late it is applied, if no other
// leader exists by then, the next one need not wait for the end of the lease.
etcd::Transaction LeaderElection::own_resignation() const {
  const ElectionKeys& keys = options_.keys;
  const bool withdraws = !is_wanted_ && phase_ == Phase::leaving && successor_.empty();
  if (options_.leaves_nothing && withdraws && sizes_.count() == 0) {
    return {.compares = {{keys.leader(), etcd::Compare::Target::created, fence_.epoch()}},
            .success = {etcd::Delete{keys.leader()}, etcd::Delete{keys.synced()},
                        etcd::Delete{keys.turn()}, etcd::Delete{keys.cluster()}}};
  }
  Synced last = own_synced(leader_lease_->lease());
  // It never led, so the previous members are still in sync.
  if (phase_ == Phase::loading) last.names = names_before_;
  last.is_vacant = true;
  last.successor = successor_;
  return resignation(keys, fence_.epoch(), to_json(last));
}

// --- what a leader writes for its successor ------------------------------------------------------

void LeaderElection::hear(TimePoint, const election::Keep& keep, Actions& actions) {
  if (!accepts(keep.number, actions)) return;
  if (auto kept = sizes_.keep(keep.name, keep.record.size()); !kept) {
    return refuse(keep.number, kept.error().reason, actions);
  }
  queue_.keep(keep.name, keep.record, keep.number);
}

void LeaderElection::hear(TimePoint, const election::Drop& drop, Actions& actions) {
  if (!accepts(drop.number, actions)) return;
  if (drop.name.empty() || drop.name.size() > bounds::election_record_name_bytes_max) {
    return refuse(drop.number, "invalid record name", actions);
  }
  sizes_.drop(drop.name);
  queue_.drop(drop.name, drop.number);
}

void LeaderElection::hear(TimePoint, const election::Publish& publish, Actions& actions) {
  if (!accepts(publish.number, actions)) return;
  // The leader itself is always in sync.
  std::vector<std::string> names = {options_.name};
  for (const std::string& name : publish.synced) {
    if (name.empty() || name.size() > bounds::election_name_bytes_max) {
      return refuse(publish.number,
                    fmt::format("invalid standby name \"{}\"",
                                plain_line(name, bounds::name_shown_bytes_max)),
                    actions);
    }
    if (std::ranges::count(names, name) == 0) names.push_back(name);
  }
  if (names.size() > bounds::election_synced_max) {
    return refuse(publish.number,
                  fmt::format("{} cpprunds in sync, and the maximum is {}", names.size(),
                              bounds::election_synced_max),
                  actions);
  }
  queue_.publish(std::move(names), publish.number);
}

bool LeaderElection::accepts(std::uint64_t number, Actions& actions) {
  if (number <= queue_.last()) {
    actions.emplace_back(election::NotWritten{number, "request numbers must increase"});
    return false;
  }
  if (is_leading()) return true;
  refuse(number, "not the leader", actions);
  return false;
}

void LeaderElection::refuse(std::uint64_t number, std::string reason, Actions& actions) {
  queue_.skip(number);
  actions.emplace_back(election::NotWritten{number, std::move(reason)});
  tell_written(actions);
}

void LeaderElection::tell_written(Actions& actions) {
  const auto through = queue_.through();
  if (!is_leading() && phase_ != Phase::leaving) return;
  if (through > std::exchange(told_written_, std::max(told_written_, through))) {
    actions.emplace_back(election::Written{through});
  }
}

// --- resigning -----------------------------------------------------------------------------------

void LeaderElection::hear(TimePoint, const election::HandOver& hand, Actions& actions) {
  const std::string shown = plain_line(hand.name, bounds::name_shown_bytes_max);
  if (!is_leading()) {
    actions.emplace_back(election::NotHandedOver{
        fmt::format("cannot transfer leadership to \"{}\": not the leader", shown)});
    return;
  }
  if (hand.name == options_.name || std::ranges::count(names_, hand.name) == 0) {
    actions.emplace_back(election::NotHandedOver{
        fmt::format("etcd has not recorded yet that \"{}\" is in sync", shown)});
    return;
  }
  end_orderly(hand.name, fmt::format("leadership was transferred to \"{}\"", shown), actions);
}

// The owner stops deciding before another candidate can lead.
void LeaderElection::end_orderly(std::string successor, std::string reason, Actions& actions) {
  actions.emplace_back(election::Deposed{std::move(reason), /*is_orderly=*/true});
  successor_ = std::move(successor);
  phase_.become(Phase::leaving);
}

// --- requests ------------------------------------------------------------------------------------

Synced LeaderElection::own_synced(const GrantedLease& lease) const {
  return {.names = names_, .epoch = fence_.epoch(), .term = lease.term, .ttl = lease.ttl};
}

std::vector<etcd::Operation> LeaderElection::operations_of(const ChangeQueue::Batch& batch,
                                                           Actions& actions) {
  std::vector<etcd::Operation> operations;
  for (const auto& change : batch) {
    if (change.name.empty()) {
      names_ = change.synced;
      tell_will(actions);
      operations.emplace_back(
          etcd::Put{options_.keys.synced(), to_json(own_synced(leader_lease_->lease()))});
    } else if (change.record) {
      operations.emplace_back(etcd::Put{options_.keys.record(change.name), *change.record});
    } else {
      operations.emplace_back(etcd::Delete{options_.keys.record(change.name)});
    }
  }
  return operations;
}

std::vector<etcd::Operation> LeaderElection::operations_for(Step step, Actions& actions) {
  const ElectionKeys& keys = options_.keys;
  if (step == Step::write) return operations_of(queue_.next_batch(), actions);
  if (step == Step::take_over) {
    return {etcd::Put{keys.synced(), to_json(own_synced(leader_lease_->lease()))}};
  }
  const GrantedLease& next = *leader_lease_->next();
  return {etcd::Put{keys.leader(), to_json(LeaderCard{options_.name, options_.card}), next.id},
          etcd::Put{keys.synced(), to_json(own_synced(next))}};
}

etcd::Request LeaderElection::fenced_request(Step step, Actions& actions) {
  if (!fenced_) fenced_ = Fenced{step, fence_.guard(options_.keys, operations_for(step, actions))};
  return fenced_->transaction;
}

void LeaderElection::hear_fenced(TimePoint now, const Asked& asked, const etcd::Decided& decided,
                                 Actions& actions) {
  fenced_.reset();
  if (fence_.judge(decided) == FencingToken::Verdict::lost) {
    return depose(now, "etcd rejected a write of the leader: another cpprund is the leader",
                  /*is_orderly=*/false, actions);
  }
  if (asked.step == Step::take_over) return take_over(actions);
  if (asked.step == Step::move) {
    revoke(leader_lease_->moved(), now);
    if (is_leading()) actions.emplace_back(election::Renewed{leader_lease_->until()});
    return;
  }
  queue_.written();
  tell_written(actions);
}

void LeaderElection::fail_fenced(TimePoint now, Step step, Kind kind, Actions& actions) {
  if (step == Step::move && kind == Kind::no_such_lease) {
    // Its comparisons were true, so it was not applied.
    fenced_.reset();
    leader_lease_->lose_next();
    move_at_ = now + options_.ttl / 2;
    return;
  }
  if (step == Step::take_over) return fail_to_load(now, kind);
  if (step != Step::write || kind != Kind::rejected) return;  // repeated unchanged
  fenced_.reset();
  if (queue_.narrow()) return;
  const auto change = queue_.give_up();
  actions.emplace_back(election::NotWritten{change.last, trouble_});
  tell_written(actions);
}

// --- invariants ----------------------------------------------------------------------------------

std::optional<std::string> LeaderElection::check() const {
  const bool has_lease = phase_ == Phase::standing || phase_ == Phase::finding_out || has_won();
  if (has_lease != leader_lease_.has_value())
    return "it is a candidate or the leader without a lease, or has a lease and is neither";
  if (fenced_ && !has_won()) return "it writes without being the leader";
  if (has_won() && fence_.epoch() != memory_.epoch) return "its epoch is not the highest";
  if (!has_won() && queue_.has_more()) return "it has queued writes without being the leader";
  if (phase_ == Phase::granting && !lanes_.is_asked(Lane::lease, Step::grant)) {
    return "it waits for a lease that it has not requested";
  }
  if (has_won() && barred_) return "it leads although etcd's data is inconsistent";
  if (reported_leader_ && reported_no_leader_)
    return "it has reported a leader, and also that there is none";
  const auto is_held = [this](const Unused& each) {
    return leader_lease_ && leader_lease_->owns(each.id);
  };
  if (std::ranges::any_of(unused_, is_held)) return "it revokes the lease by which it leads";
  return queue_.check();
}

}  // namespace cpprun
