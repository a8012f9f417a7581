// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/coordinator_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/bounds.h"

namespace cpprun {

void CoordinatorLink::came_up(TimePoint now, bool in_doubt) {
  up_ = true;
  up_since_ = now;
  in_doubt_ = in_doubt;
  doubted_ = {};
  dial_due_.reset();
  if (!local()) heartbeat_due_ = now + heartbeat_pause();
}

void CoordinatorLink::become_local(bool is_local) {
  timeouts_.local = is_local;
  up_ = false;
  heartbeat_due_.reset();
  dial_due_.reset();
  dial_pause_ = {};
  moment_ = {};
}

void CoordinatorLink::dial_by(TimePoint when) {
  if (!up_) dial_due_ = std::min(dial_due_.value_or(when), when);
}

void CoordinatorLink::went_down(TimePoint now, Pause pause) {
  up_ = false;
  in_doubt_ = false;
  moment_ = {};  // for another coordinator it may mean something else
  heartbeat_due_.reset();
  dial_due_ = now;
  if (pause == Pause::none) return;
  const Duration most = pause == Pause::is_short ? bounds::turn_pause_max : bounds::dial_pause_max;
  dial_pause_ = std::clamp(dial_pause_ * 2, bounds::dial_pause_min, most);
  dial_due_ = now + dial_pause_;
}

void CoordinatorLink::heard(TimePoint now) {
  heard_ = now;
  prove(up_since_);
  dial_pause_ = {};
}

void CoordinatorLink::overslept(TimePoint now) {
  heard_ = now;
  if (up_ && !local()) heartbeat_due_ = now;
  if (!up_) dial_by(now);
}

void CoordinatorLink::prove(TimePoint sent) {
  TimePoint& place = in_doubt_ ? doubted_ : proof_;
  place = std::max(place, sent);
}

// Earlier replies keep the takeover window they were sent under. Later replies get the new one.
void CoordinatorLink::leads(Duration patience) {
  if (patience < patience_) kept_until_ = std::max(kept_until_, fence());
  if (std::exchange(in_doubt_, false)) proof_ = std::max(proof_, doubted_);
  patience_ = patience;
}

void CoordinatorLink::lose_seat() {
  patience_ = {};
  kept_until_ = {};
}

void CoordinatorLink::answered(TimePoint now, link::AgentTime sent, link::AgentTime moment) {
  moment_ = std::max(moment_, moment);
  const TimePoint sent_at{sent};
  if (sent_at > now || sent == link::AgentTime{}) return;  // not a time that we sent
  prove(sent_at);
  round_trip_ = now - sent_at;
}

link::Heartbeat CoordinatorLink::heartbeat(TimePoint now) const {
  // No reply takes longer than the lease, or the link would be gone.
  return {.sent = std::chrono::duration_cast<link::AgentTime>(now.time_since_epoch()),
          .round_trip = std::min(round_trip_, timeouts_.lease),
          .moment = moment_};
}

TimePoint CoordinatorLink::lease_over_at() const {
  return std::max(fence(), kept_until_) - margin();
}

// Often enough that half a lease without messages means silence.
Duration CoordinatorLink::heartbeat_pause() const {
  Duration pause = timeouts_.heartbeat;
  if (beat_pause_ > Duration{}) pause = std::min(pause, beat_pause_);
  return is_one_of_several_ ? std::min(pause, timeouts_.lease / 3) : pause;
}

Duration CoordinatorLink::margin() const {
  return std::min(Duration{bounds::fence_margin}, timeouts_.lease / 10);
}

CoordinatorLink::Due CoordinatorLink::take_due(TimePoint now) {
  Due due;
  if (heartbeat_due_ && *heartbeat_due_ <= now) {
    heartbeat_due_ = now + heartbeat_pause();
    due.heartbeat = true;
  }
  if (dial_due_ && *dial_due_ <= now) {
    dial_due_.reset();
    due.dial = true;
  }
  return due;
}

std::optional<TimePoint> CoordinatorLink::next_deadline() const {
  if (!dial_due_ || !heartbeat_due_) return dial_due_ ? dial_due_ : heartbeat_due_;
  return std::min(*dial_due_, *heartbeat_due_);
}

Places::Places(const Endpoint& first, std::vector<Endpoint> named)
    : named_(std::move(named)), led_last_(first), at_(first) {}

std::vector<Endpoint> Places::all() const {
  std::vector<Endpoint> all{led_last_};
  const auto add = [&all](const Endpoint& place) {
    if (std::ranges::find(all, place) == all.end()) all.push_back(place);
  };
  std::ranges::for_each(told_, add);
  std::ranges::for_each(named_, add);
  if (hinted_) add(*hinted_);
  return all;
}

bool Places::was_asked(const Endpoint& place) const {
  return std::ranges::find(asked_, place) != asked_.end();
}

std::optional<Endpoint> Places::left() const {
  if (hinted_ && !was_asked(*hinted_)) return hinted_;
  for (const Endpoint& each : all()) {
    if (!was_asked(each)) return each;
  }
  return std::nullopt;
}

const Endpoint& Places::next() {
  auto place = left();
  if (!place) {
    begin_turn();
    ++turns_;
    place = left();
  }
  at_ = *place;
  asked_.push_back(at_);
  leads_ = false;
  return at_;
}

void Places::begin_turn() {
  asked_.clear();
  hints_ = 0;
}

void Places::leads() {
  leads_ = true;
  led_last_ = at_;
  hinted_.reset();
  turns_ = 0;
}

// It reported this itself, so a new cycle begins, in which it counts as asked.
void Places::leads_no_more() {
  if (!std::exchange(leads_, false)) return;
  begin_turn();
  asked_.push_back(at_);
}

void Places::hint(const Endpoint& there) {
  if (!was_asked(at_)) asked_.push_back(at_);
  // Do not follow an endless chain of redirects.
  if (hints_ == static_cast<int>(bounds::members_max)) return;
  ++hints_;
  hinted_ = there;
}

bool Places::lost(bool fell_silent) {
  if (std::exchange(leads_, false)) {
    begin_turn();
    if (fell_silent) asked_.push_back(at_);
    return !fell_silent;
  }
  return !left();
}

std::optional<agent::LinkUp> place_alone(const Config& config,
                                         const std::optional<std::string>& literal) {
  if (config.nodes_max != 1) return std::nullopt;
  agent::LinkUp place{"127.0.0.1"};
  if (literal) place.master_addresses.push_back(*literal);
  return place;
}

agent::LinkUp place_among_nodes(const std::vector<std::string>& addresses,
                                const Result<std::string>& way) {
  // A missing route can be correct: behind NAT or a Service no interface here has the address.
  return {way.value_or(std::string{}), addresses};
}

void DuplicateMasterCheck::look_at(TimePoint now, std::vector<std::string> addresses) {
  addresses_ = std::move(addresses);
  if (addresses_.size() > bounds::node_addresses_max) addresses_.resize(bounds::node_addresses_max);
  due_.reset();
  if (!addresses_.empty()) due_ = now;
}

std::vector<std::string> DuplicateMasterCheck::take_due(TimePoint now) {
  if (!due_ || *due_ > now) return {};
  due_ = now + bounds::status_interval;
  return addresses_;
}

DuplicateMasterVerdict judge_rival(const Config& config, const AgentFacts& facts,
                                   const link::Hosts& answer) {
  const std::string where = to_string(config.endpoint);
  if (answer.itself) return {};
  if (answer.job.empty()) {
    return {.sentence = fmt::format(
                "a cpprund listens at {}, but this node hosts its job itself: to use the daemon, "
                "set --rdzv-backend=c10d and --rdzv-endpoint={}, without --node-rank",
                where, where)};
  }
  if (answer.job != config.job) {
    return {.sentence =
                fmt::format("{} is the master of another job, \"{}\", at {}, where the other nodes "
                            "of this job connect: give each job its own address",
                            answer.host, answer.job, where)};
  }
  const std::string job = answer.job == "none" ? "this job" : fmt::format("job \"{}\"", answer.job);
  return {.sentence =
              fmt::format("two masters of {}: {} (pid {}) hosts it at {}, and so does this node, "
                          "{}; start only one of them with --node-rank=0 (or is_host=true)",
                          job, answer.host, answer.pid, where, facts.host),
          .same_job = true};
}

}  // namespace cpprun
