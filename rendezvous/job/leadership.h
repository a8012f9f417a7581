// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// By what right a coordinator decides about its round while a standby could take its place.
//
// The standby leads with the votes of more than half of the round's nodes, its own among them. A
// node votes when it has heard nothing from the coordinator for bounds::vote_patience, and follows
// nobody else from then on. So the coordinator may decide as long as it knows of half of the nodes,
// itself among them, or of the standby, that they have heard it less long ago, or that they know
// that the round has ended: then they vote no more in it. (It can never have that right while the
// standby has its votes: docs/states.md, "Who leads".)
//
// What is known of a node is the moment that it says again in its heartbeat (link::Heartbeat): the
// answer of that moment has arrived.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "proto/clock.h"
#include "proto/ids.h"

namespace cpprun {

// Of so many nodes, one of which is the coordinator's.
inline std::size_t votes_to_lead(std::size_t nodes) {
  return nodes / 2 + 1;
}

class Leadership {
 public:
  explicit Leadership(Duration lease);

  // A round of so many nodes is sealed. Nobody may vote in it yet.
  void begin(std::size_t nodes);
  // From now on that one may stand, and the node behind `node` may vote. True: it could not before.
  void appoint(LinkId standby) { standby_ = standby; }
  bool may_vote(LinkId node, TimePoint now);
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

  bool has_vote(LinkId node) const;
  bool may_be_lost() const { return !nodes_.empty(); }
  std::optional<LinkId> standby() const { return standby_; }

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
  struct Node {
    TimePoint heard{};
    bool is_released = false;
    Agent agent = {};
  };
  TimePoint until_of(const Node& node) const;
  // How many of the others have to follow.
  std::size_t needed() const { return (size_ + 1) / 2 - 1; }

  Duration patience_;  // shorter than the nodes', by what a clock may drift
  std::size_t size_ = 0;
  std::optional<LinkId> standby_;
  std::unordered_map<LinkId, Node> nodes_;  // that may vote, but for the coordinator's own
};

}  // namespace cpprun
