// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/admission_control.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "proto/bounds.h"
#include "rendezvous/peer_address.h"

namespace cpprun {

std::string source_of(const std::string& address) {
  PeerAddress parsed;
  if (::inet_pton(AF_INET6, address.c_str(), parsed.ip.data()) != 1) return address;
  return parsed.source_text();
}

bool Quota::take(const std::string& address) {
  if (taken(address) >= most_) return false;
  ++taken_[source_of(address)];
  return true;
}

void Quota::give_back(const std::string& address) {
  const auto found = taken_.find(source_of(address));
  if (found != taken_.end() && --found->second == 0) taken_.erase(found);
}

std::size_t Quota::taken(const std::string& address) const {
  const auto found = taken_.find(source_of(address));
  return found == taken_.end() ? 0 : found->second;
}

Result<void> JobPlaces::check(TimePoint now, const std::string& job,
                              const std::string& address) const {
  if (const auto kept_until = names_.deadline_of(job)) {
    return failure(fmt::format(
        "job \"{}\" has lost its place here while none of its nodes was connected, and they may "
        "compute for {} s more: come again then, or take another --rdzv-id",
        job, std::ceil(in_seconds(*kept_until - now))));
  }
  const std::size_t has = of_source_.taken(address);
  if (has >= limits_.per_source) {
    return failure(fmt::format(
        "{} has begun {} jobs here that are not over, the limit of one address: start cpprund with "
        "a larger --max-jobs-per-address where that is too few",
        source_of(address), limits_.per_source));
  }
  if (taken_ + reserved() >= limits_.jobs && reserved() > 0 && has >= bounds::jobs_few) {
    return failure(fmt::format(
        "{} has begun {} jobs here that are not over, and the last {} of {} places are for "
        "addresses with fewer than {}: start cpprund with a larger --max-jobs",
        source_of(address), has, reserved(), limits_.jobs, bounds::jobs_few));
  }
  return {};
}

void JobPlaces::take(const std::string& address) {
  assert(!is_full());
  const bool may = of_source_.take(address);
  assert(may);
  static_cast<void>(may);
  ++taken_;
}

void JobPlaces::give_back(const std::string& address) {
  of_source_.give_back(address);
  --taken_;
}

bool JobPlaces::keep_name(const std::string& job, const std::string& address, TimePoint until) {
  if (names_.size() >= bounds::job_names_kept_max) return false;
  names_.plan(job, until);
  founder_of_[job] = address;
  --taken_;
  return true;
}

void JobPlaces::forget_names(TimePoint now) {
  for (const std::string& job : names_.take_due(now)) {
    of_source_.give_back(founder_of_.extract(job).mapped());
  }
}

namespace {

// The fair share of one address is 1/64 of the slots.
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
