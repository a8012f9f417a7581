// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Limits on what a single source can use of a coordinator: quotas per source, TLS handshakes, and
// links that have not joined a job.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "proto/result.h"
#include "rendezvous/coordinator/bounds.h"
#include "rendezvous/job/job.h"
#include "rendezvous/job/leases.h"

namespace cpprun {

// The source of a numeric address: "10.0.0.1" for both "10.0.0.1" and "::ffff:10.0.0.1", or a
// prefix such as "2001:db8:1:2::/64".
std::string source_of(const std::string& address);

// A limit per source, so that a single machine cannot exhaust a shared resource. A source is an
// IPv4 address or the /64 prefix of an IPv6 address: a host with one address of a /64 can use all
// 2^64 addresses in it.
class SourceLimit {
 public:
  explicit SourceLimit(std::size_t most) : most_(most) {}

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

using HandshakeId = Id<struct HandshakeTag, std::uint64_t>;

// The connections that have not proved yet that they hold the secret. The number of slots is fixed.
// A new connection always gets one: when all are taken, another connection is evicted. If the
// address with the most slots has more than its share, its oldest connection goes, so that a flood
// evicts itself. Otherwise, as in a flood from very many addresses, the oldest connection of all
// goes, which is never a peer that replies at once. Addresses count as PeerAddress::source()
// defines it.
class HandshakeAdmission {
 public:
  explicit HandshakeAdmission(std::size_t slots_max = bounds::handshakes_max,
                              Duration timeout = bounds::handshake_timeout)
      : slots_max_(slots_max), timeout_(timeout) {}

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
  std::size_t size() const { return slots_.size(); }
  // The oldest handshake from `address`. If `address` is empty, the one to be evicted next.
  std::optional<HandshakeId> oldest_of(const std::string& address) const;

 private:
  struct Slot {
    std::string address;
    TimePoint deadline{};
  };

  HandshakeId who_goes() const;

  std::size_t slots_max_;
  Duration timeout_;
  std::map<HandshakeId, Slot> slots_;              // in order of arrival
  std::map<std::string, std::size_t> by_address_;  // the number of slots per address
  HandshakeId last_{};
};

// The links of agents that have sent the preamble but not joined a job yet. They time out. An
// address, the only thing known of an unidentified peer, may have only so many links, joined or
// not.
class Newcomers {
 public:
  Newcomers(std::size_t links_per_source, std::size_t newcomers_max);

  // A link was opened. If its address has too many, returns the reason, and the link is no
  // newcomer.
  Result<void> open(TimePoint now, const Caller& caller);
  // Null if it is no newcomer, or no longer.
  const Caller* find(LinkId link) const;
  // It is no newcomer any longer, because it has sent its first message.
  void identify(LinkId link) {
    newcomers_.erase(link);
    leases_.forget(link);
  }
  void close(LinkId link) {
    forget(link);
    release(link);
  }
  // The link no longer counts for its address.
  void release(LinkId link);
  const std::unordered_map<LinkId, Caller>& all() const { return newcomers_; }

  // An agent that also speaks from another address of its machine.
  struct Introduction {
    link::WhoHosts agent;
    Caller from;
  };
  // The agent sends its join through another link, before or after this. This link stays open and
  // counts in the quota until the agent has joined, and the introduction is forgotten when this
  // link closes. Returns false if this link has introduced one already.
  bool introduce(const Caller& caller, const link::WhoHosts& agent);
  // The introductions of agents with that number. 0: the agent cannot be identified.
  std::vector<Introduction> introductions_of(std::uint32_t agent) const;

  // Each forgets the links that have been silent for too long, and returns them. Those of the
  // second have less time than others: there are too many, or, `in_a_hurry`, the hosted job is
  // over, whose end a silent link must not delay.
  std::vector<LinkId> expire(TimePoint now);
  std::vector<LinkId> make_room(TimePoint now, bool in_a_hurry);
  std::optional<TimePoint> next_deadline(bool in_a_hurry) const;

 private:
  void forget(LinkId link);
  std::optional<TimePoint> next_to_make_room(bool in_a_hurry) const;

  std::size_t newcomers_max_;  // get the full time to join
  std::unordered_map<LinkId, Caller> newcomers_;
  Leases leases_;
  std::unordered_multimap<std::uint32_t, Introduction> introductions_;  // by agent number
  std::unordered_map<LinkId, std::uint32_t> introduced_;                // the agent number by link
  SourceLimit links_of_source_;
  std::unordered_map<LinkId, std::string> counted_;  // the address that each link counts for
};

}  // namespace cpprun
