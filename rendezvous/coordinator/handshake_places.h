// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Who has come to prove that it holds the secret, and has not done so yet. There are so many places
// and no more. Where all are taken the newcomer gets one all the same: where one address has more
// than its share, whoever of it has waited longest gives up its own, and so a flood pushes out
// itself; of a flood that comes from very many addresses everybody has few, and whoever has waited
// longest of all goes, which is nobody who answers at once. An address counts as PeerAddress has
// it: a network of IPv6 is one.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/bounds.h"
#include "proto/clock.h"
#include "proto/ids.h"

namespace cpprun {

using HandshakeId = Id<struct HandshakeTag, std::uint64_t>;

class HandshakePlaces {
 public:
  explicit HandshakePlaces(std::size_t places_max = bounds::handshakes_max,
                           Duration patience = bounds::handshake_patience)
      : places_max_(places_max), patience_(patience) {}

  // A newcomer's id, and who has to go for it.
  struct Taken {
    HandshakeId id;
    std::optional<HandshakeId> evicted;
  };
  Taken take(TimePoint now, const std::string& address);
  // It is through, or gone. It may have left already.
  void leave(HandshakeId id);

  // Those whose time is over; their places are free.
  std::vector<HandshakeId> expire(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  std::size_t size() const { return places_.size(); }
  // That has waited longest of that address; of no address: that which would give up its place.
  std::optional<HandshakeId> oldest_of(const std::string& address) const;

 private:
  struct Place {
    std::string address;
    TimePoint deadline{};
  };

  HandshakeId who_goes() const;

  std::size_t places_max_;
  Duration patience_;
  std::map<HandshakeId, Place> places_;            // in the order in which they came
  std::map<std::string, std::size_t> by_address_;  // how many of each are there
  HandshakeId last_{};
};

}  // namespace cpprun
