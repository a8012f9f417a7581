// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/coordinator_link.h"

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
  moment_ = {};  // of another coordinator it may mean something else
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

// What was answered before keeps the patience that it was answered with; what will be has this one.
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
  if (sent_at > now || sent == link::AgentTime{}) return;  // Nothing that we have said.
  prove(sent_at);
  round_trip_ = now - sent_at;
}

link::Heartbeat CoordinatorLink::heartbeat(TimePoint now) const {
  // No answer takes longer than the lease, or the link would be gone.
  return {.sent = std::chrono::duration_cast<link::AgentTime>(now.time_since_epoch()),
          .round_trip = std::min(round_trip_, timeouts_.lease),
          .moment = moment_};
}

TimePoint CoordinatorLink::lease_over_at() const {
  return std::max(fence(), kept_until_) - margin();
}

// Often enough that half of a lease is no silence.
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

}  // namespace cpprun
