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
// While a round drains, nodes leave it. Where the standby is one of them, or too few are left for
// its majority, the coordinator appoints again: a standby, the nodes that may still vote, and the
// number of votes it takes. The earlier appointments stay valid, because a standby that is cut off
// may not know better: the coordinator may decide while none of them can win, and a later one takes
// so many votes that an earlier one cannot win beside it.
//
// What is known of a node is the moment that it says again in its heartbeat (link::Heartbeat): the
// answer of that moment has arrived.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

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
