// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The leases of the nodes (Leases), and how long the coordinator may decide beside a standby
// (Leadership).

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "proto/clock.h"
#include "proto/ids.h"

namespace cpprun {

// Whom nothing has been heard from for too long. All leases are equally long, so holders stay
// sorted by when they were last heard: renewing and finding the first to expire are O(1), for ten
// thousand nodes as for two.
class Leases {
 public:
  explicit Leases(Duration length) : length_(length) {}

  // Starts the holder's lease, or starts it anew.
  void renew(LinkId holder, TimePoint now);
  // The holder is gone, or is not to be watched any more.
  void forget(LinkId holder);
  // The lease goes on under another link, as if nothing had happened.
  void move(LinkId from, LinkId to);

  bool watches(LinkId holder) const { return entries_.contains(holder); }
  // When the holder was last heard; nothing: it is not watched.
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

  // Its lease has begun before every other.
  std::optional<Expired> longest_silent() const {
    return by_age_.empty() ? std::nullopt : std::optional(by_age_.front());
  }

  // When `expire` has something to do: twice before the first lease ends, to notice that its owner
  // is awake, and again when it does end.
  std::optional<TimePoint> next_expiry() const;
  // Ends every lease that has run out by `now` and returns the holders, longest silent first. An
  // owner that slept (a stopped process, a starved machine) has not read what they said meanwhile.
  // Then no lease ends for as long as the sleep was longer than the first of them, at least for
  // bounds::coordinator_nap and at most for another lease: nodes may have slept as well.
  std::vector<Expired> expire(TimePoint now);

  Duration length() const { return length_; }

 private:
  using Entry = Expired;
  std::optional<TimePoint> first_end() const;
  Duration look_ahead() const;
  Duration watch() const;

  Duration length_;
  TimePoint awake_at_ = TimePoint::min();  // when expire() was called last
  // Since then it was called so often that its owner has not slept.
  TimePoint awake_since_ = TimePoint::min();
  std::optional<TimePoint> held_until_;  // after a sleep
  int holds_ = 0;                        // in a row
  std::list<Entry> by_age_;              // Invariant: `heard` never decreases from front to back.
  std::unordered_map<LinkId, std::list<Entry>::iterator> entries_;
};

// Of so many nodes, one of which is the coordinator's.
inline std::size_t votes_to_lead(std::size_t nodes) {
  return nodes / 2 + 1;
}

// By what right a coordinator decides about its round while a standby could take its place.
//
// The standby leads with the votes of more than half of the round's nodes, its own among them. A
// node votes when it has heard nothing from the coordinator for bounds::vote_patience, and follows
// nobody else from then on. So the coordinator may decide as long as it knows of half of the nodes,
// itself among them, or of the standby, that they have heard it less long ago, or that they know
// that the round has ended: then they vote no more in it. (It can never have that right while the
// standby has its votes: docs/states.md, "Who leads".)
//
// While a round drains, nodes leave it. Where the standby is one of them, or too few are left for
// its majority, the coordinator appoints again: a standby, the nodes that may still vote, and the
// number of votes it takes. The earlier appointments stay valid, because a standby that is cut off
// may not know better: the coordinator may decide while none of them can win, and a later one takes
// so many votes that an earlier one cannot win beside it.
//
// What is known of a node is the moment that it says again in its heartbeat (link::Heartbeat): the
// answer of that moment has arrived.
class Leadership {
 public:
  explicit Leadership(Duration lease);

  // A round of so many nodes is sealed. Nobody may vote in it yet.
  void begin(std::size_t nodes);
  // From now on that one may stand: the first time with the votes of a majority of the round.
  void appoint(LinkId standby);
  // Again, in the same round, of which only these may still vote. False: there are too few.
  bool appoint_again(LinkId standby, const std::vector<LinkId>& voters);
  // How many votes the standby appointed last needs, its own among them.
  std::size_t votes_needed() const;
  // The node behind `node` may vote from now on.
  void may_vote(LinkId node, TimePoint now);
  // Which agent that is, so that it is recognized on another link when the round has lost it.
  struct Agent {
    std::string host;
    int pid = 0;
    std::uint32_t number = 0;
    friend bool operator==(const Agent&, const Agent&) = default;
  };
  void identify(LinkId node, Agent agent) { nodes_.at(node).agent = std::move(agent); }
  // Under which link that agent may vote; nothing: it may not.
  std::optional<LinkId> voter(const Agent& agent) const;
  // Nobody may vote in this round, or any more.
  void end();

  bool has_standby() const { return !appointments_.empty(); }
  bool has_vote(LinkId node) const;
  bool is_released(LinkId node) const;
  bool may_be_lost() const { return !nodes_.empty(); }

  // It has heard the answer of that moment.
  void heard(LinkId node, TimePoint moment);
  // It knows that the round has ended, or has done its part in it: it votes no more.
  void released(LinkId node);
  void moved(LinkId from, LinkId to);

  // Until when this coordinator may decide, as far as is known; nothing: without an end.
  std::optional<TimePoint> until() const;
  // Enough nodes know that the round has ended: nobody can lead in it any more.
  bool is_settled() const;

 private:
  // Nodes only leave: who may vote in one appointment may vote in all before it.
  struct Appointment {
    LinkId standby;
    std::size_t voters = 0;  // all but the coordinator's own node, and those that cannot vote too
    std::size_t needed = 0;
  };
  struct Node {
    TimePoint heard{};
    bool is_released = false;
    Agent agent = {};
    std::size_t appointments = SIZE_MAX;  // it votes in the first so many
  };
  TimePoint until_of(const Node& node) const;
  std::optional<TimePoint> until_of(std::size_t index) const;

  Duration patience_;  // shorter than the nodes', by what a clock may drift
  std::size_t size_ = 0;
  std::vector<Appointment> appointments_;
  std::unordered_map<LinkId, Node> nodes_;  // that may vote, but for the coordinator's own
};

}  // namespace cpprun
