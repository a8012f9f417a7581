// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How many places a daemon has and who gets them: quotas of sources, places for jobs, and places
// for handshakes.

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
#include "rendezvous/coordinator/agenda.h"

namespace cpprun {

// Of a numeric address: "10.0.0.1" of that and of ::ffff:10.0.0.1, "2001:db8:1:2::/64".
std::string source_of(const std::string& address);

// How much of something one source may have at a time, so that a single machine cannot take all of
// it from the others. A source is an IPv4 address, or the first 64 bits of an IPv6 one: whoever has
// one of those has all 2^64 addresses that begin with it.
class Quota {
 public:
  explicit Quota(std::size_t most) : most_(most) {}

  // False: that source has all it may have.
  bool take(const std::string& address);
  // One of those that were taken is free again.
  void give_back(const std::string& address);
  std::size_t most() const { return most_; }
  std::size_t taken(const std::string& address) const;

 private:
  std::size_t most_;
  std::unordered_map<std::string, std::size_t> taken_;  // by source; never zero
};

// The places that a daemon has for jobs, and who has begun the jobs that have them. Two rules keep
// some free for whoever comes: one source has its share at most, and the last quarter is for those
// who have few. And the name of a job whose place was given to another is kept for as long as its
// nodes may still compute: a new job of that name would have their ranks.
class JobPlaces {
 public:
  struct Limits {
    std::size_t jobs = 0;
    std::size_t per_source = 0;
  };
  explicit JobPlaces(Limits limits) : limits_(limits), of_source_(limits.per_source) {}

  // Whether a node of that address may begin a job of that name, if there is a place; why not.
  Result<void> check(TimePoint now, const std::string& job, const std::string& address) const;
  // It has one from now on; to be asked before.
  void take(const std::string& address);
  void give_back(const std::string& address);
  bool is_full() const { return taken_ >= limits_.jobs; }

  // The job of that name has lost its place. The name, which counts for the address that began it
  // as the job did, is nobody's until then. False: too many names are kept, and nothing is done.
  bool keep_name(const std::string& job, const std::string& address, TimePoint until);
  void forget_names(TimePoint now);
  std::optional<TimePoint> next_to_forget() const { return names_.next(); }

 private:
  // For sources that have few, unless the site has said that one source may have all.
  std::size_t reserved() const { return limits_.per_source < limits_.jobs ? limits_.jobs / 4 : 0; }

  Limits limits_;
  std::size_t taken_ = 0;
  Quota of_source_;                                          // of places and of names that are kept
  Agenda names_;                                             // that are kept, and until when
  std::unordered_map<std::string, std::string> founder_of_;  // the address that began that job
};

using HandshakeId = Id<struct HandshakeTag, std::uint64_t>;

// Who has come to prove that it holds the secret, and has not done so yet. There are so many places
// and no more. Where all are taken the newcomer gets one all the same: where one address has more
// than its share, whoever of it has waited longest gives up its own, and so a flood pushes out
// itself; of a flood that comes from very many addresses everybody has few, and whoever has waited
// longest of all goes, which is nobody who answers at once. An address counts as PeerAddress has
// it: a network of IPv6 is one.
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
