// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One agreed membership of a job, and how it leads to the next:
//
//   gathering   members come and wait for a seat. Sealed when enough are there.
//   sealed      everybody has a seat and ranks; workers run. A member has `succeeded` when all of
//               its workers ended with 0.
//   draining    the round is broken: every member ends its workers and says so. When nobody of the
//               old round is left anywhere, the members wait again: gathering.
//
// Round knows who is here and in which state; it does not know why a round breaks, or whether there
// is another. That is Job's business.

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/link/message.h"
#include "proto/state_machine.h"
#include "rendezvous/job/clock_offset.h"
#include "rendezvous/job/node_figures.h"
#include "rendezvous/job/ranks.h"

namespace cpprun {

struct Member {
  enum class State { waiting, running, succeeded, drained };

  link::Join join;
  std::string peer;  // numeric address from which its link comes
  // A few further addresses from which its agent has spoken, on links of their own.
  std::vector<std::string> further_peers = {};
  bool local = false;          // lives in the coordinator's own process: cannot be lost
  bool claims = false;         // came for a node rank that somebody has, who may be dead
  bool leaving = false;        // was asked to stop: gets no seat in the next round
  std::string dismissed = {};  // where an operator asked it to leave: who, and why
  bool connected = true;       // false: its link broke, and may resume until the lease runs out
  std::optional<TimePoint> broke_at = {};  // when it did
  ClockOffset clock = {};
  State state = State::waiting;
  TimePoint since{};                         // when it came into that state; for people
  std::optional<GroupRank> group_rank = {};  // in this round, or in the one before
  RankRange ranks = {};
  NodeFigures figures = {};  // of its workers in the round that was sealed last; for people
};

class Round {
 public:
  // What is said of each seat, by link.
  using Seats = std::vector<std::pair<LinkId, link::Sealed>>;
  enum class Phase { gathering, sealed, draining };
  static constexpr PhaseStep<Phase> steps[] = {{Phase::gathering, Phase::sealed},
                                               {Phase::sealed, Phase::draining},
                                               {Phase::draining, Phase::gathering}};

  // A round as it was when its coordinator ended.
  struct Past {
    RoundNumber number{};
    Phase phase = Phase::gathering;
    int world_size = 0;
  };
  Round() = default;
  Round(const Past& past, std::vector<std::pair<LinkId, Member>> members);

  RoundNumber number() const { return number_; }
  Phase phase() const { return phase_; }
  std::size_t size() const { return members_.size(); }
  // Who is here and was not asked to stop.
  std::size_t staying() const { return size() - leaving_; }
  // Whose link broke, and may come back.
  std::size_t away() const { return away_; }
  // Who came for the node rank of a member, of which it is not known yet whether it is there.
  std::size_t claims() const { return claims_; }
  std::size_t count(Member::State state) const { return counts_[index_of(state)]; }
  // Workers of the round that was sealed last.
  int world_size() const { return world_size_; }
  // Every member, in no order.
  template <class Visit>
  void each(Visit&& visit) const {
    for (const auto& [link, member] : members_) visit(link, member);
  }
  // In node order: by the number of the seat, then in the order of their links.
  std::vector<std::pair<LinkId, const Member*>> members() const;
  // The invariant that is broken, if one is.
  std::optional<std::string> check() const;

  const Member* find(LinkId link) const;
  // Tells every node the master's addresses, and the master another node's.
  void tell_neighbours(Seats& seats) const;
  // Of the round that is sealed, what seal() and tell_neighbours() have said to that node; nothing:
  // not all that had a seat are here still.
  std::optional<link::Sealed> seat_of(LinkId link) const;
  // The one that lives in the coordinator's own process.
  const Member* local_member() const;
  // The member that has that node rank, or was the first to ask for it.
  const Member* holder_of(int node_rank) const;
  // Who asked for it after that one: in its place, if it is dead. There is one at most.
  std::optional<LinkId> claimant_of(int node_rank) const;
  // The member with this agent, for a link that comes back: same host, pid and random number,
  // because containers repeat the first two. If several claim that, the one from the same address.
  std::optional<LinkId> find_agent(const link::Join& join, const std::string& peer) const;

  // Who asks for a node rank that a member has claims it until that is gone, or it is refused.
  void enter(LinkId link, Member member);
  void leave(LinkId link);
  void set_state(LinkId link, Member::State state, TimePoint now);
  // It gets no seat in the next round. `dismissed`: who wants it so, if that is not the node
  // itself.
  void mark_leaving(LinkId link, std::string dismissed = {});
  // Its link broke, or is back.
  void set_broken(LinkId link, std::optional<TimePoint> broke_at);
  // It lives in the coordinator's own process from now on.
  void set_local(LinkId link) { members_.at(link).local = true; }
  // Its agent has spoken from that address, too. False: already known, or there are enough.
  bool add_peer(LinkId link, const std::string& peer);
  ClockOffset& clock_of(LinkId link) { return members_.at(link).clock; }
  NodeFigures& figures_of(LinkId link) { return members_.at(link).figures; }
  // The agent behind `from` speaks through `to` from now on.
  void move(LinkId from, LinkId to);

  // The next round's number is greater than that one, unless a round runs already.
  void number_from(RoundNumber number) {
    if (phase_ == Phase::gathering && number_.value < number.value) number_ = number;
  }
  // Gathering → sealed. At most `seats_max` of those waiting get a seat, survivors of the previous
  // round first, then in order of arrival; the others go on waiting, as spares. Returns each seat's
  // numbers, by link.
  Seats seal(int seats_max, TimePoint now);
  // Sealed → draining.
  void break_up();
  // Draining → gathering. Everybody who had a seat has drained; they all wait again.
  void gather_again(TimePoint now);

  // How many have a seat in the round that is sealed or drains.
  std::size_t seated() const { return size() - count(Member::State::waiting); }

  // "2 of 4 nodes are here; missing: node rank 1, node rank 3"
  std::string who_is_missing(int nodes_wanted) const;
  // "node 1 on host-b, node 2 on host-c": those in that state, a few of them.
  std::string who_is(Member::State state) const;
  std::string who_is_away() const;
  std::string who_is_here() const;

 private:
  std::vector<LinkId> chosen(int seats_max) const;
  link::Sealed seat(const Member& member, std::size_t nodes) const;
  void remember_seats();
  std::vector<std::string> addresses_of(LinkId link) const;
  void forget_agent(LinkId link, const Member& member);
  void forget_wish(LinkId link, const Member& member);
  template <class Predicate>
  std::string names_of(Predicate&& which) const;
  static std::size_t index_of(Member::State state) { return static_cast<std::size_t>(state); }

  PhaseOf<Phase> phase_{Phase::gathering, steps};
  RoundNumber number_{};
  int world_size_ = 0;
  // Of the round that was sealed last: how many had a seat (0: not all are known), the master, and
  // the first of the others.
  std::size_t seats_ = 0;
  std::vector<LinkId> front_;
  std::unordered_map<LinkId, Member> members_;
  // Invariant: for each state, how many of members_ are in it.
  std::array<std::size_t, 4> counts_{};
  std::size_t leaving_ = 0;  // how many of members_ are
  std::size_t away_ = 0;     // how many of members_ are not connected
  std::size_t claims_ = 0;   // how many of members_ claim a rank that another one of them has
  // Two at most: its holder and who claims it.
  std::unordered_multimap<int, LinkId> by_node_rank_;
  // By a hash of host and pid, which several may share: when a network comes back, ten thousand
  // agents resume at once.
  std::unordered_multimap<std::size_t, LinkId> by_agent_;
};

// "node 1 on host-b", or "host-b" before it has a number.
std::string name_of(const Member& member);

}  // namespace cpprun
