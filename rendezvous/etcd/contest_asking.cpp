// SPDX-License-Identifier: BSD-3-Clause
// What a Contest asks next, and when.
#include <algorithm>
#include <utility>

#include "rendezvous/etcd/contest.h"

namespace cpprun {

namespace {

constexpr TimePoint at_once = TimePoint::min();

// What etcd has to take in, or may have to give out.
std::size_t bytes_of(const etcd::Request& request, AskLanes::Step step) {
  if (step == AskLanes::Step::load) {
    return bounds::contest_page_records * bounds::contest_record_bytes_max / 8;
  }
  std::size_t bytes = 0;
  if (const auto* const transaction = std::get_if<etcd::Transaction>(&request)) {
    for (const auto& each : transaction->success) {
      if (const auto* const put = std::get_if<etcd::Put>(&each)) bytes += put->value.size();
    }
  }
  return bytes;
}

Duration patience_for(std::size_t bytes, Duration ttl) {
  constexpr std::int64_t mebibyte = 1024 * 1024;
  return bounds::etcd_patience(ttl) +
         Duration{bounds::etcd_patience_per_mebibyte} * static_cast<std::int64_t>(bytes) / mebibyte;
}

std::int64_t whole_seconds(Duration duration) {
  return std::chrono::ceil<std::chrono::seconds>(duration).count();
}

}  // namespace

Duration Contest::look_pause(TimePoint now) const {
  if (now < eager_until_) return bounds::contest_eager_look_pause;
  return is_wanted_ || is_needed_ ? bounds::contest_look_pause(options_.ttl)
                                  : bounds::contest_seldom_look_pause;
}

std::optional<TimePoint> Contest::next_deadline() const {
  std::optional<TimePoint> next;
  const auto consider = [&next](std::optional<TimePoint> at) {
    if (at && (!next || *at < *next)) next = at;
  };
  if (has_won()) consider(tenure_->until());
  if (lanes_.is_idle(Lane::lease)) {
    if (const auto due = lease_due()) consider(std::max(*due, lanes_.ready_at(Lane::lease)));
  }
  if (lanes_.is_idle(Lane::writes)) {
    if (const auto due = writes_due()) consider(std::max(*due, lanes_.ready_at(Lane::writes)));
  }
  if (phase_ == Phase::following) consider(withdrawn_by_);
  return next;
}

// A new lease is wanted when etcd has chosen a leader of its own, and as soon as nothing is
// written: from its grant on the old one is renewed no more.
bool Contest::wants_next_lease() const {
  return phase_ == Phase::leading && tenure_->wants_next() && lanes_.is_idle(Lane::writes) &&
         !fenced_;
}

std::optional<TimePoint> Contest::lease_due() const {
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
      if (must_look_ || tenure_->needs_look()) return at_once;
      return wants_next_lease() ? std::min(move_at_, tenure_->renew_at()) : tenure_->renew_at();
  }
  return std::nullopt;
}

std::optional<Contest::Step> Contest::next_lease_step(TimePoint now) const {
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
      if (must_look_ || tenure_->needs_look()) return Step::look;
      return tenure_->renew_at() <= now ? Step::keep_alive : Step::grant;
  }
  return std::nullopt;
}

std::optional<TimePoint> Contest::writes_due() const {
  // What is begun while a lease is asked for would hold up the move to it.
  const bool may_write = has_won() && !lanes_.is_asked(Lane::lease, Step::grant);
  if (may_write && (fenced_ || phase_ == Phase::loading || tenure_->next() || queue_.has_more())) {
    return at_once;
  }
  const auto alarms = phase_ == Phase::leading ? std::optional(alarms_at_) : std::nullopt;
  if (unused_.empty()) return alarms;
  return alarms ? std::min(*alarms, unused_.front().ready) : unused_.front().ready;
}

std::optional<Contest::Step> Contest::next_writes_step(TimePoint now) const {
  const auto due = writes_due();
  if (!due || *due > now) return std::nullopt;
  if (has_won() && !lanes_.is_asked(Lane::lease, Step::grant)) {
    if (fenced_) return fenced_->step;
    if (phase_ == Phase::loading) return is_loaded_ ? Step::take_over : Step::load;
    if (phase_ == Phase::leading && tenure_->next()) return Step::move;
    if (queue_.has_more()) return Step::write;
  }
  if (unused_.empty() || unused_.front().ready > now) {
    return phase_ == Phase::leading && alarms_at_ <= now ? std::optional(Step::alarms)
                                                         : std::nullopt;
  }
  return unused_.front().farewell ? Step::resign : Step::revoke;
}

void Contest::ask(TimePoint now, Lane lane, Step step, Actions& actions) {
  auto request = request_for(step, actions);
  const Duration patience = patience_for(bytes_of(request, step), options_.ttl);
  actions.emplace_back(lanes_.ask(now, lane, step, std::move(request), patience));
}

etcd::Request Contest::request_for(Step step, Actions& actions) {
  switch (step) {
    case Step::look:
      return etcd::Transaction{.success = view_reads(options_.keys)};
    case Step::keep_alive:
      return etcd::KeepAlive{tenure_->renewed_lease()};
    case Step::grant:
      if (phase_ == Phase::following) phase_.become(Phase::granting);
      // Chosen here, so that it can be taken back even where no answer comes.
      asked_lease_ = numbers_.positive();
      return etcd::Grant{asked_lease_, whole_seconds(options_.ttl)};
    case Step::stand:
      return request_to_stand();
    case Step::load:
      return etcd::Transaction{
          .success = {etcd::Read{load_from_, options_.keys.records_end(),
                                 static_cast<std::int64_t>(bounds::contest_page_records)}}};
    case Step::take_over:
    case Step::write:
    case Step::move:
      return fenced_request(step, actions);
    case Step::resign:
      return *unused_.front().farewell;
    case Step::revoke:
      return etcd::Revoke{unused_.front().id};
    case Step::alarms:
      return etcd::GetAlarms{};
  }
  return etcd::Revoke{};
}

}  // namespace cpprun
