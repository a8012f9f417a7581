// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The agent's link to its coordinator as a set of times: when to send a heartbeat, when to dial,
// when to give up. Knows nothing of rounds and workers. A local link, within the coordinator's own
// process, needs no heartbeat and is never silent.
//
// The coordinator gives a node up after hearing nothing from it for the lease. The agent counts the
// same lease from when it *sent* the last message known to have arrived. That is never later than
// the coordinator's count, whichever direction of the network is cut; and it ends a little earlier,
// because killing takes a moment. So nobody is alive here when the others go on.

#include <algorithm>
#include <optional>

#include "proto/clock.h"
#include "proto/link/message.h"

namespace cpprun {

class CoordinatorLink {
 public:
  struct Timeouts {
    Duration heartbeat{};  // between two of ours
    Duration lease{};      // of silence, after which the other side is taken for gone
    bool local = false;
  };

  // Says more often that we are here than it was meant to; zero: as it was meant to.
  void beat_every(Duration pause) { beat_pause_ = pause; }
  // The coordinator is in this process from now on, or is not any more; the link is down.
  void become_local(bool is_local);
  // It is dialled at that time, if not before.
  void dial_by(TimePoint when);
  void dial_at(TimePoint when) {
    if (!up_) dial_due_ = when;
  }

  // What has come due, each of it told once.
  struct Due {
    bool heartbeat = false;
    bool dial = false;
  };

  explicit CoordinatorLink(Timeouts timeouts) : timeouts_(timeouts) {}

  void came_up(TimePoint now);
  // It could not be made, or it broke. The next attempt comes after a pause that grows.
  void went_down(TimePoint now);
  // Any message proves that what we sent when this link came up has arrived.
  void heard(TimePoint now);
  // The coordinator has answered what we sent then, by its own clock at that moment.
  void answered(TimePoint now, link::AgentTime sent, link::AgentTime moment = {});
  Due take_due(TimePoint now);

  bool up() const { return up_; }
  bool local() const { return timeouts_.local; }
  link::Heartbeat heartbeat(TimePoint now) const;
  // From when on this link counts as dead.
  TimePoint silent_at() const { return std::max(heard_, up_since_) + timeouts_.lease; }
  bool silent(TimePoint now) const { return !local() && up_ && silent_at() <= now; }
  // When our lease runs out.
  TimePoint lease_over_at() const;
  bool lease_is_over(TimePoint now) const { return !local() && lease_over_at() <= now; }
  // The watchdog's deadline: halfway between ours and the coordinator's, so that it acts only if
  // this process did not.
  TimePoint overdue_at() const { return lease_over_at() + margin() / 2; }
  // When we sent the latest message that is known to have arrived, and how long ago that was.
  TimePoint proof() const { return proof_; }
  Duration since_last_ack(TimePoint now) const { return now - proof_; }
  // For heartbeats and dialling. Silence is for the owner to watch, who knows whether it matters.
  std::optional<TimePoint> next_deadline() const;

 private:
  Duration margin() const;
  Duration heartbeat_pause() const {
    return beat_pause_ > Duration{} ? std::min(beat_pause_, timeouts_.heartbeat)
                                    : timeouts_.heartbeat;
  }

  Timeouts timeouts_;
  bool up_ = false;
  TimePoint up_since_{};
  TimePoint heard_{};
  TimePoint proof_{};  // when we sent the latest of what provably arrived
  Duration round_trip_{};
  Duration dial_pause_{};  // grows with every attempt that fails
  std::optional<TimePoint> dial_due_;
  std::optional<TimePoint> heartbeat_due_;
  Duration beat_pause_{};     // zero: as in timeouts_
  link::AgentTime moment_{};  // the latest that was heard
};

}  // namespace cpprun
