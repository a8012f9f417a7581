#include "launcher/keeper_link.h"

#include <algorithm>

#include "proto/bounds.h"

namespace cpprun {

void KeeperLink::came_up(TimePoint now) {
  up_ = true;
  heard_ = now;
  dial_due_.reset();
  if (!local()) heartbeat_due_ = now + patience_.heartbeat;
}

void KeeperLink::went_down(TimePoint now) {
  up_ = false;
  heartbeat_due_.reset();
  dial_pause_ = std::clamp(dial_pause_ * 2, bounds::dial_pause_min, bounds::dial_pause_max);
  dial_due_ = now + dial_pause_;
}

void KeeperLink::heard(TimePoint now) {
  heard_ = now;
  dial_pause_ = {};
}

KeeperLink::Due KeeperLink::take_due(TimePoint now) {
  Due due;
  if (heartbeat_due_ && *heartbeat_due_ <= now) {
    heartbeat_due_ = now + patience_.heartbeat;
    due.heartbeat = true;
  }
  if (dial_due_ && *dial_due_ <= now) {
    dial_due_.reset();
    due.dial = true;
  }
  return due;
}

std::optional<TimePoint> KeeperLink::next_deadline() const {
  if (!dial_due_ || !heartbeat_due_) return dial_due_ ? dial_due_ : heartbeat_due_;
  return std::min(*dial_due_, *heartbeat_due_);
}

}  // namespace cpprun
