#pragma once
// Whom we have not heard of for too long. Every lease has the same length, so the holders stay
// sorted by when they were last heard: renewing and finding the first to expire are O(1), for ten
// thousand nodes as for two.

#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "proto/clock.h"
#include "proto/ids.h"

namespace cpprun {

class Leases {
 public:
  explicit Leases(Duration length) : length_(length) {}

  // Starts the holder's lease, or starts it anew.
  void renew(LinkId holder, TimePoint now);
  // The holder is gone, or is not to be watched any more.
  void forget(LinkId holder);
  // The lease goes on under another link, as if nothing had happened.
  void move(LinkId from, LinkId to);

  struct Expired {
    LinkId holder;
    TimePoint heard;  // for the last time
    friend bool operator==(const Expired&, const Expired&) = default;
  };

  std::optional<TimePoint> next_expiry() const;
  // Ends every lease that has run out by `now`; the holders, longest silent first. Whoever asks
  // later than was due has slept (a stopped process, a starved machine), and what the holders said
  // meanwhile is still to be read: then nobody's lease ends for bounds::keeper_nap more.
  std::vector<Expired> expire(TimePoint now);

  Duration length() const { return length_; }

 private:
  using Entry = Expired;
  Duration length_;
  std::optional<TimePoint> held_until_;  // after a sleep
  std::list<Entry> by_age_;              // Invariant: `heard` never decreases from front to back.
  std::unordered_map<LinkId, std::list<Entry>::iterator> entries_;
};

}  // namespace cpprun
