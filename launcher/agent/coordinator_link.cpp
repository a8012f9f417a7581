// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/coordinator_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/agent/bounds.h"
#include "proto/link/bounds.h"
#include "proto/link/codec.h"
#include "rendezvous/job/bounds.h"

namespace cpprun {

void CoordinatorLink::came_up(TimePoint now, bool in_doubt) {
  up_ = true;
  up_since_ = now;
  in_doubt_ = in_doubt;
  doubted_ = {};
  has_heard_ = false;
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

void CoordinatorLink::went_down(TimePoint now, Pause pause, bool fell_silent) {
  if (std::exchange(has_heard_, false) && !in_doubt_) alone_since_ = fell_silent ? heard_at() : now;
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
  if (!std::exchange(has_heard_, true)) unanswered_ = now - alone_since_;
  heard_ = now;
  prove(up_since_);
  dial_pause_ = {};
}

void CoordinatorLink::overslept(TimePoint now) {
  confirm_by_ = now + timeouts_.lease;
  heard_ = now;
  if (up_ && !local()) heartbeat_due_ = now;
  if (!up_) dial_by(now);
}

void CoordinatorLink::prove(TimePoint sent) {
  TimePoint& place = in_doubt_ ? doubted_ : proof_;
  place = std::max(place, sent);
}

// Earlier replies keep the takeover window they were sent under. Later replies get the new one.
void CoordinatorLink::leads(Duration takeover_window) {
  if (takeover_window < takeover_window_) kept_until_ = std::max(kept_until_, fence());
  if (std::exchange(in_doubt_, false)) proof_ = std::max(proof_, doubted_);
  takeover_window_ = takeover_window;
}

void CoordinatorLink::lose_seat() {
  takeover_window_ = {};
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

namespace {

// The precision on the wire: the coordinator in this process must get the same values as others.
Duration milliseconds(Duration duration) {
  return std::chrono::floor<std::chrono::milliseconds>(duration);
}

bool fits(const link::Join& join) {
  return link::encode(join).size() <= bounds::round_frame_bytes_max;
}

}  // namespace

link::Join join_message(const Config& config, const AgentFacts& facts, const JoinState& state) {
  link::Join join{.job = config.job,
                  .host = facts.host,
                  .pid = facts.pid,
                  .agent = facts.agent,
                  .node_rank = config.node_rank,
                  .nodes_min = config.nodes_min,
                  .nodes_max = config.nodes_max,
                  .local_world_size = config.local_world_size,
                  .role = config.role,
                  .restarts = config.restarts,
                  .lease = milliseconds(config.lease()),
                  .last_call = milliseconds(config.last_call),
                  .after = state.after,
                  .idle = state.idle,
                  .done = state.done,
                  .sent = state.sent,
                  .store_is_local = config.store == StoreWay::local,
                  // In a cluster, another cpprund takes over.
                  .can_lead = config.may_have_standby() && state.epoch == 0,
                  .vote = state.vote,
                  .turns = true,
                  .epoch = state.epoch,
                  .fresh = state.fresh,
                  .captures = true,
                  .upgrades = true};
  for (Duration* const each :
       {&join.restarts.backoff, &join.restarts.window, &join.restarts.host_limit.window}) {
    *each = milliseconds(*each);
  }
  // Long names may leave no room for it. Then the node cannot be upgraded in place.
  join.upgrades = fits(join);
  std::vector<std::string> addresses;
  for (OwnAddress& own : addresses_for_others(facts.interfaces)) {
    addresses.push_back(std::move(own.address));
  }
  if (addresses.size() <= bounds::node_addresses_max) {
    // Usually all of them fit, and one encoding shows it.
    join.addresses = addresses;
    if (fits(join)) return join;
    join.addresses.clear();
  }
  for (std::string& address : addresses) {
    if (join.addresses.size() == bounds::node_addresses_max) return join;
    join.addresses.push_back(std::move(address));
    if (!fits(join)) join.addresses.pop_back();
  }
  return join;
}

}  // namespace cpprun
