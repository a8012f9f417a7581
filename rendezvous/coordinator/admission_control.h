// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Limits on what a single source can use of a daemon: quotas per source, job slots and handshake
// slots.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "proto/bounds.h"
#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/result.h"
#include "rendezvous/coordinator/deadline_queue.h"

namespace cpprun {

// The source of a numeric address: "10.0.0.1" for both "10.0.0.1" and "::ffff:10.0.0.1", or a
// prefix such as "2001:db8:1:2::/64".
std::string source_of(const std::string& address);

// A limit per source, so that a single machine cannot exhaust a shared resource. A source is an
// IPv4 address or the /64 prefix of an IPv6 address: a host with one address of a /64 can use all
// 2^64 addresses in it.
class Quota {
 public:
  explicit Quota(std::size_t most) : most_(most) {}

  // Returns false if the source has reached its limit.
  bool take(const std::string& address);
  // Releases one unit that take() granted.
  void give_back(const std::string& address);
  std::size_t most() const { return most_; }
  std::size_t taken(const std::string& address) const;

 private:
  std::size_t most_;
  std::unordered_map<std::string, std::size_t> taken_;  // by source; never zero
};

// The daemon's job slots, and the address that started each job. Two rules keep slots free for
// newcomers: a source has a limit, and the last quarter of the slots is for sources with few jobs.
// When a job loses its slot, its name stays reserved for as long as its nodes may still compute,
// because a new job of that name would reuse their ranks.
class JobPlaces {
 public:
  struct Limits {
    std::size_t jobs = 0;
    std::size_t per_source = 0;
  };
  explicit JobPlaces(Limits limits) : limits_(limits), of_source_(limits.per_source) {}

  // Whether a node at `address` may start this job, provided that a slot is free. If not, returns
  // the reason.
  Result<void> check(TimePoint now, const std::string& job, const std::string& address) const;
  // Occupies a slot. Requires a successful check() and a free slot.
  void take(const std::string& address);
  void give_back(const std::string& address);
  bool is_full() const { return taken_ >= limits_.jobs; }

  // Frees the slot of this job but reserves its name until `until`. The name counts against the
  // quota of `address`, which started the job. Returns false, and changes nothing, if too many
  // names are reserved.
  bool keep_name(const std::string& job, const std::string& address, TimePoint until);
  void forget_names(TimePoint now);
  std::optional<TimePoint> next_to_forget() const { return names_.next(); }

 private:
  // Slots for sources with few jobs. None if the site allows one source to take all slots.
  std::size_t reserved() const { return limits_.per_source < limits_.jobs ? limits_.jobs / 4 : 0; }

  Limits limits_;
  std::size_t taken_ = 0;
  Quota of_source_;                                          // counts job slots and reserved names
  DeadlineQueue names_;                                      // reserved names and when they expire
  std::unordered_map<std::string, std::string> founder_of_;  // the address that started that job
};

using HandshakeId = Id<struct HandshakeTag, std::uint64_t>;

// The connections that have not proved yet that they hold the secret. The number of slots is fixed.
// A new connection always gets one: when all are taken, another connection is evicted. If the
// address with the most slots has more than its share, its oldest connection goes, so that a flood
// evicts itself. Otherwise, as in a flood from very many addresses, the oldest connection of all
// goes, which is never a peer that replies at once. Addresses count as PeerAddress::source()
// defines it.
class HandshakePlaces {
 public:
  explicit HandshakePlaces(std::size_t places_max = bounds::handshakes_max,
                           Duration patience = bounds::handshake_patience)
      : places_max_(places_max), patience_(patience) {}

  // The new handshake, and the handshake evicted to make room for it.
  struct Taken {
    HandshakeId id;
    std::optional<HandshakeId> evicted;
  };
  Taken take(TimePoint now, const std::string& address);
  // The handshake is complete, or its connection is closed. No effect if it has left already.
  void leave(HandshakeId id);

  // Removes and returns the handshakes that have timed out.
  std::vector<HandshakeId> expire(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  std::size_t size() const { return places_.size(); }
  // The oldest handshake from `address`. If `address` is empty, the one to be evicted next.
  std::optional<HandshakeId> oldest_of(const std::string& address) const;

 private:
  struct Place {
    std::string address;
    TimePoint deadline{};
  };

  HandshakeId who_goes() const;

  std::size_t places_max_;
  Duration patience_;
  std::map<HandshakeId, Place> places_;            // in order of arrival
  std::map<std::string, std::size_t> by_address_;  // the number of slots per address
  HandshakeId last_{};
};

}  // namespace cpprun
