// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The leases of the nodes (Leases), and which of them may vote for a standby (RoundVotes).

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "proto/clock.h"
#include "proto/rank.h"

namespace cpprun {

// Detects nodes that have been silent for too long. All leases have the same length, so holders
// stay sorted by when they were last heard. Renewing and finding the first to expire are O(1), for
// ten thousand nodes as for two.
class Leases {
 public:
  explicit Leases(Duration length) : length_(length) {}

  // Starts or restarts the holder's lease.
  void renew(LinkId holder, TimePoint now);
  // The holder is gone, or needs no watching.
  void forget(LinkId holder);
  // The lease continues under another link, unchanged.
  void move(LinkId from, LinkId to);

  bool watches(LinkId holder) const { return entries_.contains(holder); }
  // When the holder was last heard; nothing if it is not watched.
  std::optional<TimePoint> heard(LinkId holder) const {
    const auto found = entries_.find(holder);
    return found == entries_.end() ? std::nullopt : std::optional(found->second->heard);
  }
  std::size_t size() const { return entries_.size(); }

  struct Expired {
    LinkId holder;
    TimePoint heard;  // for the last time
    friend bool operator==(const Expired&, const Expired&) = default;
  };

  // The holder whose lease started first.
  std::optional<Expired> longest_silent() const {
    return by_age_.empty() ? std::nullopt : std::optional(by_age_.front());
  }

  // When `expire` has something to do: twice shortly before the first lease ends, to notice that
  // this process is awake, and again when it ends.
  std::optional<TimePoint> next_expiry() const;
  // Ends every lease that has expired by `now` and returns the holders, longest silent first. A
  // process that slept (stopped, or starved of CPU) has not read what they sent meanwhile. After a
  // sleep no lease ends for as long as the sleep outlasted the first of them, at least
  // bounds::coordinator_nap and at most one more lease, because the nodes may have slept as well.
  std::vector<Expired> expire(TimePoint now);

  Duration length() const { return length_; }

 private:
  using Entry = Expired;
  std::optional<TimePoint> first_end() const;
  Duration look_ahead() const;
  Duration watch() const;

  Duration length_;
  TimePoint awake_at_ = TimePoint::min();  // when expire() was called last
  // Since then it was called often enough to be sure that this process has not slept.
  TimePoint awake_since_ = TimePoint::min();
  std::optional<TimePoint> held_until_;  // after a sleep
  int holds_ = 0;                        // consecutive sleeps after which no lease ended
  std::list<Entry> by_age_;              // Invariant: `heard` never decreases from front to back.
  std::unordered_map<LinkId, std::list<Entry>::iterator> entries_;
};

// Out of that many nodes, including the coordinator's own.
inline std::size_t votes_to_lead(std::size_t nodes) {
  return nodes / 2 + 1;
}

// The nodes of a round that may vote for a standby, and with them the leader's lease: how long the
// coordinator may decide about its round while a standby could take its place.
//
// The standby leads with the votes of more than half of the round's nodes, including its own. A
// node votes after bounds::vote_timeout without a message from the coordinator, and from then on
// follows only the node it voted for. So the coordinator may decide as long as half of the nodes
// (including itself), or the standby, are known not to vote: they have received something from it
// more recently than that, or they know that the round has ended and vote in it no longer. The
// coordinator can never have this right while the standby has its votes: docs/states.md, "Who
// leads".
//
// Nodes leave a round while it drains. If the standby leaves, or too few nodes are left for its
// majority, the coordinator makes another appointment: a standby, the nodes that may still vote,
// and the number of votes it needs. Earlier appointments stay valid, because a standby that is cut
// off may not know of a later one. The coordinator may decide while none of them can win. A later
// appointment needs so many votes that an earlier one cannot win at the same time.
//
// The evidence about a node is the timestamp that it repeats in its heartbeat (link::Heartbeat): it
// has received the reply of that time.
class RoundVotes {
 public:
  explicit RoundVotes(Duration lease);

  // A round of that many nodes is sealed. No node may vote in it yet.
  void begin(std::size_t nodes);
  // The standby may campaign from now on. The first one needs the votes of a majority of the round.
  void appoint(LinkId standby);
  // Appoints again in the same round, with `voters` as the only nodes that may still vote. Returns
  // false if they are too few.
  bool appoint_again(LinkId standby, const std::vector<LinkId>& voters);
  // The votes that the latest standby needs, including its own.
  std::size_t votes_needed() const;
  // The node may vote from now on.
  void may_vote(LinkId node, TimePoint now);
  // Identifies an agent, to recognize it on another link after the round has lost it.
  struct Agent {
    std::string host;
    int pid = 0;
    std::uint32_t number = 0;
    friend bool operator==(const Agent&, const Agent&) = default;
  };
  void identify(LinkId node, Agent agent) { nodes_.at(node).agent = std::move(agent); }
  // The link under which that agent may vote; nothing if it may not.
  std::optional<LinkId> voter(const Agent& agent) const;
  // No node may vote in this round from now on.
  void end();

  bool has_standby() const { return !appointments_.empty(); }
  bool has_vote(LinkId node) const;
  bool is_released(LinkId node) const;
  bool may_be_lost() const { return !nodes_.empty(); }

  // The node has received the reply of that time.
  void heard(LinkId node, TimePoint moment);
  // The node knows that the round has ended, or has finished its part in it: it does not vote any
  // longer.
  void released(LinkId node);
  void moved(LinkId from, LinkId to);

  // Until when this coordinator may decide, as far as is known; nothing: without limit.
  std::optional<TimePoint> until() const;
  // Enough nodes know that the round has ended: no other coordinator can lead in it.
  bool is_decided() const;

 private:
  // Nodes only leave, so a node that may vote in one appointment may vote in all earlier ones.
  struct Appointment {
    LinkId standby;
    std::size_t voters = 0;  // all nodes but the coordinator's own, even if they cannot vote
    std::size_t needed = 0;
  };
  struct Node {
    TimePoint heard{};
    bool is_released = false;
    Agent agent = {};
    std::size_t appointments = SIZE_MAX;  // it votes only in the first so many
  };
  TimePoint until_of(const Node& node) const;
  std::optional<TimePoint> until_of(std::size_t index) const;

  Duration timeout_;  // shorter than the nodes' timeout, by the possible clock drift
  std::size_t size_ = 0;
  std::vector<Appointment> appointments_;
  std::unordered_map<LinkId, Node> nodes_;  // nodes that may vote, without the coordinator's own
};

}  // namespace cpprun
