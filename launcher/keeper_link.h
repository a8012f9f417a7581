#pragma once
// When to speak, when to dial and when to stop believing: the agent's link to its keeper, as
// times. Knows nothing of rounds and workers. A local link, within the keeper's own process, needs
// no heartbeat and is never silent.

#include <optional>

#include "proto/clock.h"

namespace cpprun {

class KeeperLink {
 public:
  struct Patience {
    Duration heartbeat{};  // between two of ours
    Duration lease{};      // of silence, after which the other side is taken for gone
    bool local = false;
  };

  // What has come due, each of it told once.
  struct Due {
    bool heartbeat = false;
    bool dial = false;
  };

  explicit KeeperLink(Patience patience) : patience_(patience) {}

  void came_up(TimePoint now);
  // It could not be made, or it broke. The next attempt comes after a pause that grows.
  void went_down(TimePoint now);
  void heard(TimePoint now);
  Due take_due(TimePoint now);

  bool up() const { return up_; }
  bool local() const { return patience_.local; }
  // Nothing was heard for the whole lease.
  bool silent(TimePoint now) const { return !local() && heard_ + patience_.lease <= now; }
  // When it will have been silent for the lease.
  TimePoint silent_at() const { return heard_ + patience_.lease; }
  // Of heartbeats and dialling; silence is the owner's to watch, who knows whether it matters.
  std::optional<TimePoint> next_deadline() const;

 private:
  Patience patience_;
  bool up_ = false;
  TimePoint heard_{};
  Duration dial_pause_{};  // grows with every attempt that fails
  std::optional<TimePoint> dial_due_;
  std::optional<TimePoint> heartbeat_due_;
};

}  // namespace cpprun
