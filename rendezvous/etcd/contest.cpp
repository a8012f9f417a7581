// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/contest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "proto/state_machine.h"
#include "proto/text.h"

namespace cpprun {

namespace {

using Phase = Contest::Phase;
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

// Or a part of what makes somebody lead.
bool is_change(Step step) {
  return step != Step::look && step != Step::keep_alive && step != Step::revoke &&
         step != Step::alarms;
}

}  // namespace

const PhaseOf<Phase>::Steps Contest::steps = allowed_steps;

std::optional<std::string> impossible(const ContestOptions& options) {
  if (options.name.empty() || options.name.size() > bounds::contest_name_bytes_max) {
    return fmt::format(
        "a name in a contest has 1 to {} bytes, and \"{}\" has {}", bounds::contest_name_bytes_max,
        plain_line(options.name, bounds::contest_name_bytes_max), options.name.size());
  }
  if (options.card.size() > bounds::contest_card_bytes_max) {
    return fmt::format("what a leader shows of itself has {} bytes, the limit is {}",
                       options.card.size(), bounds::contest_card_bytes_max);
  }
  if (options.endpoints.empty()) return "no member of etcd is named";
  if (options.ttl < bounds::contest_ttl_min || options.ttl > bounds::contest_ttl_max) {
    return fmt::format("a lease of {} s is asked of etcd: it has to be {:.0f} to {:.0f} s",
                       in_seconds(options.ttl), in_seconds(bounds::contest_ttl_min),
                       in_seconds(bounds::contest_ttl_max));
  }
  return std::nullopt;
}

Contest::Contest(ContestOptions options)
    : options_(std::move(options)),
      numbers_(options_.seed),
      lanes_(options_.endpoints.size()),
      new_cluster_(fmt::format("{:016x}{:016x}", numbers_.next(), numbers_.next())) {}

Contest::Actions Contest::handle(TimePoint now, const Event& event) {
  Actions actions;
  // Whatever is said now, and however late it is heard: a right that is over is over first.
  expire(now, actions);
  std::visit([&](const auto& each) { hear(now, each, actions); }, event);
  go_on(now, actions);
  return actions;
}

Contest::Actions Contest::advance(TimePoint now) {
  Actions actions;
  expire(now, actions);
  go_on(now, actions);
  return actions;
}

void Contest::expire(TimePoint now, Actions& actions) {
  if (!has_won() || now < tenure_->until()) return;
  depose(now,
         fmt::format("etcd has not confirmed its lease for {:.1f} s{}{}",
                     in_seconds(now - tenure_->lease().confirmed), trouble_.empty() ? "" : ": ",
                     trouble_),
         /*is_orderly=*/false, actions);
}

// --- the owner -----------------------------------------------------------------------------------

void Contest::hear(TimePoint now, const contest::Enter&, Actions&) {
  is_wanted_ = true;
  withdrawn_by_.reset();
  // What was seen last may be old.
  run_at_.reset();
  look_at_ = now;
}

void Contest::hear(TimePoint now, const contest::Withdraw&, Actions& actions) {
  is_wanted_ = false;
  withdrawn_by_ = now + 2 * options_.ttl;
  if (phase_ == Phase::leading) return end_orderly({}, "it withdraws", actions);
  if (phase_ == Phase::loading) let_go(now);
}

void Contest::hear(TimePoint now, const contest::Attend& attend, Actions&) {
  is_needed_ = attend.is_needed;
  if (!is_needed_) return;
  look_at_ = now;
  attended_at_ = now;
  if (attend.is_imminent) eager_until_ = now + bounds::contest_eager_time;
}

// --- etcd ----------------------------------------------------------------------------------------

void Contest::hear(TimePoint now, const contest::Answered& answered, Actions& actions) {
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

void Contest::hear_step(TimePoint now, const Asked& asked, const etcd::Answer& answer,
                        Actions& actions) {
  const bool is_of_now = lanes_.is_of_this_life(asked);
  switch (asked.step) {
    case Step::look:
      return hear_look(now, asked, std::get<etcd::Decided>(answer), actions);
    case Step::grant:
      return hear_grant(now, asked, std::get<etcd::Granted>(answer));
    case Step::resign:
      return unused_.front().farewell.reset();
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

void Contest::note_success(TimePoint now, const Asked& asked, Actions& actions) {
  if (asked.lane == Lane::lease) heard_at_ = now;
  if (is_change(asked.step)) {
    is_alarmed_ = false;
    if (std::exchange(is_unwritable_, false)) actions.emplace_back(contest::Writable{});
  } else if (asked.lane == Lane::lease) {
    if (std::exchange(is_unreachable_, false)) actions.emplace_back(contest::Reachable{});
  }
}

void Contest::note_failure(TimePoint now, const Asked& asked, const etcd::Failure& failed,
                           Actions& actions) {
  if (asked.step == Step::revoke && failed.kind == Kind::no_such_lease) return;
  // An etcd that does not let us read them is as good as before.
  if (asked.step == Step::alarms) {
    return lanes_.failed(now, asked, etcd::is_of_this_member(failed.kind), /*rests=*/false);
  }
  trouble_ = etcd::describe(failed, options_.endpoints[asked.endpoint]);
  const bool is_of_member = etcd::is_of_this_member(failed.kind);
  // A lease has to be renewed whatever else cannot be had.
  const bool rests = asked.step != Step::grant && asked.step != Step::stand;
  lanes_.failed(now, asked, is_of_member, rests);
  const bool is_everywhere = lanes_.has_failed_everywhere(asked.lane);
  if (is_change(asked.step)) {
    if (is_unwritable_ || failed.kind == Kind::no_such_lease) return;
    if (is_of_member && (is_unreachable_ || !is_everywhere)) return;
    is_unwritable_ = true;
    actions.emplace_back(contest::Unwritable{trouble_, !is_of_member});
  } else if (asked.lane == Lane::lease && lanes_.has_failed_in_most(Lane::lease) &&
             !is_unreachable_) {
    is_unreachable_ = true;
    actions.emplace_back(contest::Unreachable{trouble_, heard_at_ ? now - *heard_at_ : Duration{}});
  }
}

void Contest::fail_step(TimePoint now, const Asked& asked, Kind kind, Actions& actions) {
  const bool is_of_now = lanes_.is_of_this_life(asked);
  switch (asked.step) {
    case Step::look:
    case Step::keep_alive:
      if (has_won()) tenure_->renewal_failed(now);
      return;
    case Step::grant:
      if (etcd::may_have_happened(kind)) put_away(asked_lease_, now);
      move_at_ = now + options_.ttl / 2;
      not_before_ = now + bounds::etcd_round_pause;
      if (phase_ == Phase::granting) phase_.become(Phase::following);
      return;
    case Step::stand:
      return fail_to_stand(now, kind);
    case Step::resign:
      // Without a word to the next one: the key goes with the lease.
      if (!etcd::is_of_this_member(kind)) return unused_.front().farewell.reset();
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

void Contest::wait_with_unused(TimePoint now) {
  unused_.front().ready = now + bounds::etcd_round_pause;
  std::ranges::rotate(unused_, unused_.begin() + 1);
}

// --- what follows --------------------------------------------------------------------------------

void Contest::go_on(TimePoint now, Actions& actions) {
  // Whatever was wished for before is written.
  if (phase_ == Phase::leaving && !queue_.has_more() && !fenced_) let_go(now);
  if (lanes_.is_ready(Lane::writes, now)) {
    if (const auto step = next_writes_step(now)) ask(now, Lane::writes, *step, actions);
  }
  if (lanes_.is_ready(Lane::lease, now)) {
    if (const auto step = next_lease_step(now)) ask(now, Lane::lease, *step, actions);
  }
  finish(now, actions);
}

void Contest::finish(TimePoint now, Actions& actions) {
  if (!withdrawn_by_ || phase_ != Phase::following) return;
  const bool is_clean =
      unused_.empty() && lanes_.is_idle(Lane::writes) && !lanes_.is_asked(Lane::lease, Step::grant);
  // Where etcd does not take it back, the lease ends by itself.
  if (!is_clean && now < *withdrawn_by_) return;
  withdrawn_by_.reset();
  actions.emplace_back(contest::Withdrawn{});
}

}  // namespace cpprun
