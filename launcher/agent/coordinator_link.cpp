// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/coordinator_link.h"

#include <algorithm>

#include "proto/bounds.h"

namespace cpprun {

void CoordinatorLink::came_up(TimePoint now) {
  up_ = true;
  up_since_ = now;
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

void CoordinatorLink::went_down(TimePoint now) {
  up_ = false;
  moment_ = {};  // of another coordinator it may mean something else
  heartbeat_due_.reset();
  dial_pause_ = std::clamp(dial_pause_ * 2, bounds::dial_pause_min, bounds::dial_pause_max);
  dial_due_ = now + dial_pause_;
}

void CoordinatorLink::heard(TimePoint now) {
  heard_ = now;
  proof_ = std::max(proof_, up_since_);
  dial_pause_ = {};
}

void CoordinatorLink::answered(TimePoint now, link::AgentTime sent, link::AgentTime moment) {
  moment_ = std::max(moment_, moment);
  const TimePoint sent_at{sent};
  if (sent_at > now || sent == link::AgentTime{}) return;  // Nothing that we have said.
  proof_ = std::max(proof_, sent_at);
  round_trip_ = now - sent_at;
}

link::Heartbeat CoordinatorLink::heartbeat(TimePoint now) const {
  // No answer takes longer than the lease, or the link would be gone.
  return {.sent = std::chrono::duration_cast<link::AgentTime>(now.time_since_epoch()),
          .round_trip = std::min(round_trip_, timeouts_.lease),
          .moment = moment_};
}

TimePoint CoordinatorLink::lease_over_at() const {
  return proof_ + timeouts_.lease - margin();
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
