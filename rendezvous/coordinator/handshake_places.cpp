// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/handshake_places.h"

#include <algorithm>

namespace cpprun {

namespace {

// So many addresses may have a fair share of the places each.
constexpr std::size_t shares = 64;

}  // namespace

HandshakeId HandshakePlaces::who_goes() const {
  const auto most =
      std::ranges::max_element(by_address_, {}, [](const auto& entry) { return entry.second; });
  if (most->second <= std::max<std::size_t>(places_max_ / shares, 1)) return places_.begin()->first;
  return std::ranges::find_if(
             places_, [&](const auto& entry) { return entry.second.address == most->first; })
      ->first;
}

std::optional<HandshakeId> HandshakePlaces::oldest_of(const std::string& address) const {
  if (places_.empty()) return std::nullopt;
  if (address.empty()) return who_goes();
  const auto found = std::ranges::find_if(
      places_, [&](const auto& entry) { return entry.second.address == address; });
  return found == places_.end() ? std::nullopt : std::optional(found->first);
}

HandshakePlaces::Taken HandshakePlaces::take(TimePoint now, const std::string& address) {
  Taken taken{.id = {}, .evicted = std::nullopt};
  if (places_.size() >= places_max_) {
    taken.evicted = who_goes();
    leave(*taken.evicted);
  }
  taken.id = last_ = HandshakeId{last_.value + 1};
  places_.emplace(taken.id, Place{address, now + patience_});
  ++by_address_[address];
  return taken;
}

void HandshakePlaces::leave(HandshakeId id) {
  const auto place = places_.find(id);
  if (place == places_.end()) return;
  const auto count = by_address_.find(place->second.address);
  if (--count->second == 0) by_address_.erase(count);
  places_.erase(place);
}

std::vector<HandshakeId> HandshakePlaces::expire(TimePoint now) {
  std::vector<HandshakeId> expired;
  for (const auto& [id, place] : places_) {
    if (place.deadline > now) break;
    expired.push_back(id);
  }
  for (const HandshakeId id : expired) leave(id);
  return expired;
}

std::optional<TimePoint> HandshakePlaces::next_deadline() const {
  if (places_.empty()) return std::nullopt;
  return places_.begin()->second.deadline;
}

}  // namespace cpprun
