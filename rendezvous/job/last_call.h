// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// When a job stops waiting for more nodes. The last call starts once there are enough; when it is
// over, or nobody else can come, the round is sealed. It also lets newcomers into a running round
// together, so that the round is broken once for all of them and not once for each.

#include <algorithm>
#include <cstddef>
#include <optional>

#include "proto/clock.h"

namespace cpprun {

class LastCall {
 public:
  struct Seats {
    std::size_t min = 1;
    std::size_t max = 1;
  };

  // `seals_after`: the least that is waited for more nodes before a round is sealed.
  LastCall(Seats seats, Duration length, Duration seals_after = {})
      : seats_(seats), length_(length), seals_after_(std::max(length, seals_after)) {}

  // Gathering, with that many here: is it time to seal?
  bool may_seal(TimePoint now, std::size_t here);
  // Sealed, with that many seated and that many who came later: is it time to let them in?
  bool may_grow(TimePoint now, std::size_t seated, std::size_t waiting);
  void cancel() { over_at_.reset(); }

  // Set while the call runs.
  std::optional<TimePoint> over_at() const { return over_at_; }

 private:
  Seats seats_;
  Duration length_;
  Duration seals_after_;
  std::optional<TimePoint> over_at_;
};

}  // namespace cpprun
