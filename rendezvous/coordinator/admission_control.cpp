// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/admission_control.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/coordinator/bounds.h"
#include "rendezvous/peer_address.h"
#include "rendezvous/store/bounds.h"

namespace cpprun {

std::string source_of(const std::string& address) {
  PeerAddress parsed;
  if (::inet_pton(AF_INET6, address.c_str(), parsed.ip.data()) != 1) return address;
  return parsed.source_text();
}

bool SourceLimit::take(const std::string& address) {
  if (taken(address) >= most_) return false;
  ++taken_[source_of(address)];
  return true;
}

void SourceLimit::give_back(const std::string& address) {
  const auto found = taken_.find(source_of(address));
  if (found != taken_.end() && --found->second == 0) taken_.erase(found);
}

std::size_t SourceLimit::taken(const std::string& address) const {
  const auto found = taken_.find(source_of(address));
  return found == taken_.end() ? 0 : found->second;
}

namespace {

// The fair share of one address is 1/64 of the slots.
constexpr std::size_t shares = 64;

}  // namespace

HandshakeId HandshakeAdmission::who_goes() const {
  const auto most =
      std::ranges::max_element(by_address_, {}, [](const auto& entry) { return entry.second; });
  if (most->second <= std::max<std::size_t>(slots_max_ / shares, 1)) return slots_.begin()->first;
  return std::ranges::find_if(
             slots_, [&](const auto& entry) { return entry.second.address == most->first; })
      ->first;
}

std::optional<HandshakeId> HandshakeAdmission::oldest_of(const std::string& address) const {
  if (slots_.empty()) return std::nullopt;
  if (address.empty()) return who_goes();
  const auto found = std::ranges::find_if(
      slots_, [&](const auto& entry) { return entry.second.address == address; });
  return found == slots_.end() ? std::nullopt : std::optional(found->first);
}

HandshakeAdmission::Taken HandshakeAdmission::take(TimePoint now, const std::string& address) {
  Taken taken{.id = {}, .evicted = std::nullopt};
  if (slots_.size() >= slots_max_) {
    taken.evicted = who_goes();
    leave(*taken.evicted);
  }
  taken.id = last_ = HandshakeId{last_.value + 1};
  slots_.emplace(taken.id, Slot{address, now + timeout_});
  ++by_address_[address];
  return taken;
}

void HandshakeAdmission::leave(HandshakeId id) {
  const auto place = slots_.find(id);
  if (place == slots_.end()) return;
  const auto count = by_address_.find(place->second.address);
  if (--count->second == 0) by_address_.erase(count);
  slots_.erase(place);
}

std::vector<HandshakeId> HandshakeAdmission::expire(TimePoint now) {
  std::vector<HandshakeId> expired;
  for (const auto& [id, place] : slots_) {
    if (place.deadline > now) break;
    expired.push_back(id);
  }
  for (const HandshakeId id : expired) leave(id);
  return expired;
}

std::optional<TimePoint> HandshakeAdmission::next_deadline() const {
  if (slots_.empty()) return std::nullopt;
  return slots_.begin()->second.deadline;
}

Newcomers::Newcomers(std::size_t links_per_source, std::size_t newcomers_max)
    : newcomers_max_(newcomers_max),
      leases_(bounds::first_message_timeout),
      links_of_source_(links_per_source) {}

Result<void> Newcomers::open(TimePoint now, const Caller& caller) {
  if (!caller.local) {
    if (!links_of_source_.take(caller.peer)) {
      return failure(fmt::format(
          "{} already has {} connections here, the maximum per address (--max-links-per-address of "
          "cpprund)",
          source_of(caller.peer), links_of_source_.most()));
    }
    counted_.emplace(caller.link, caller.peer);
    leases_.renew(caller.link, now);
  }
  newcomers_.emplace(caller.link, caller);
  return {};
}

const Caller* Newcomers::find(LinkId link) const {
  const auto found = newcomers_.find(link);
  return found == newcomers_.end() ? nullptr : &found->second;
}

void Newcomers::release(LinkId link) {
  const auto counted = counted_.extract(link);
  if (!counted.empty()) links_of_source_.give_back(counted.mapped());
}

bool Newcomers::introduce(const Caller& caller, const link::WhoHosts& agent) {
  if (!introduced_.emplace(caller.link, agent.agent).second) return false;
  if (agent.agent != 0) introductions_.emplace(agent.agent, Introduction{agent, caller});
  return true;
}

std::vector<Newcomers::Introduction> Newcomers::introductions_of(std::uint32_t agent) const {
  std::vector<Introduction> introductions;
  const auto [first, last] = introductions_.equal_range(agent);
  for (auto at = first; at != last; ++at) introductions.push_back(at->second);
  return introductions;
}

void Newcomers::forget(LinkId link) {
  identify(link);
  const auto introduced = introduced_.extract(link);
  if (introduced.empty()) return;
  const auto [first, last] = introductions_.equal_range(introduced.mapped());
  const auto its_own =
      std::find_if(first, last, [link](const auto& each) { return each.second.from.link == link; });
  if (its_own != last) introductions_.erase(its_own);
}

std::vector<LinkId> Newcomers::expire(TimePoint now) {
  std::vector<LinkId> silent;
  for (const Leases::Expired& each : leases_.expire(now)) {
    forget(each.holder);
    silent.push_back(each.holder);
  }
  return silent;
}

// When to close the newcomer that has been silent longest.
std::optional<TimePoint> Newcomers::next_to_make_room(bool in_a_hurry) const {
  if (leases_.size() == 0) return std::nullopt;
  if (!in_a_hurry && leases_.size() <= newcomers_max_) return std::nullopt;
  return leases_.longest_silent()->heard + bounds::first_message_timeout_in_crowd;
}

std::vector<LinkId> Newcomers::make_room(TimePoint now, bool in_a_hurry) {
  std::vector<LinkId> silent;
  for (auto due = next_to_make_room(in_a_hurry); due && *due <= now;
       due = next_to_make_room(in_a_hurry)) {
    silent.push_back(leases_.longest_silent()->holder);
    forget(silent.back());
  }
  return silent;
}

std::optional<TimePoint> Newcomers::next_deadline(bool in_a_hurry) const {
  const auto expiry = leases_.next_expiry();
  const auto room = next_to_make_room(in_a_hurry);
  return expiry && room ? std::min(expiry, room) : expiry ? expiry : room;
}

}  // namespace cpprun
