// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One round of a job (Round): its members and their ranks, clocks and figures, when it is sealed,
// and whose machines it lets to the job's store.

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/link/message.h"
#include "proto/result.h"
#include "proto/state_machine.h"

namespace cpprun {

// Who gets which number. Pure functions from what nodes said about themselves to group ranks (of
// nodes) and ranks (of workers), in torchrun's numbering: workers count through the nodes in order
// of group rank, and again within each role. No node is ever sent the whole list.

// What decides a node's place.
struct Candidate {
  std::optional<int> node_rank = {};       // --node_rank, where the user gave one
  std::optional<GroupRank> previous = {};  // its place in the round before: survivors stay in order
  std::string host = {};
  int pid = 0;
};

// The candidates' indices in order of group rank: the n-th entry gets group rank n. A node rank is
// honoured if that seat exists; survivors keep their order, ahead of newcomers; newcomers follow in
// natural host order.
std::vector<std::size_t> seat_order(const std::vector<Candidate>& candidates);

// Numbers inside a text compare as numbers: "node2" before "node10".
bool natural_less(std::string_view left, std::string_view right);

struct NodeShape {
  int local_world_size = 1;
  std::string role = "default";
};

struct RankRange {
  Rank base;  // of the node's local rank 0
  int role_base = 0;
  int role_world_size = 0;
  friend bool operator==(const RankRange&, const RankRange&) = default;
};

struct RankTable {
  int world_size = 0;
  std::vector<RankRange> nodes;  // by group rank
};

RankTable assign_ranks(const std::vector<NodeShape>& nodes_in_order);

// The offset between one agent's monotonic clock and the coordinator's. Every heartbeat says when
// it was sent and how long the previous one took there and back. Of many, the fastest is right to
// within half its round trip: congestion only delays, it makes nothing arrive early.
//
// Wall clocks are ignored: they jump, and are seconds apart where nobody maintains them.
class ClockOffset {
 public:
  // A message that was sent then has arrived now. `round_trip` of an earlier one; zero: not known.
  void heard(TimePoint now, link::AgentTime sent, Duration round_trip = {});

  // The same moment by the coordinator's clock; nothing where nothing was heard yet.
  std::optional<TimePoint> by_coordinator(link::AgentTime moment) const;
  // And back: that moment of the coordinator's clock by the agent's.
  std::optional<link::AgentTime> by_agent(TimePoint moment) const;

 private:
  std::optional<Duration> ahead() const;

  static constexpr Duration unknown = Duration::max();
  // The least seen among some messages.
  struct Least {
    Duration lag = unknown;   // arrival by the coordinator's clock - sending by the agent's
    Duration trip = unknown;  // there and back
  };
  // The window slides by halves: what is older than two of them has drifted away.
  Least current_;
  Least previous_;
  int samples_ = 0;  // in current_
};

struct SeenWorker {
  link::WorkerFigures figures;
  TimePoint at{};  // when it was said
};

// What a node has said of its workers while somebody looked, and when it was asked last. For
// whoever looks; decides nothing.
struct NodeFigures {
  std::optional<TimePoint> asked = {};
  std::vector<SeenWorker> workers = {};  // in order of local rank

  // Those that are told of replace what was known of them. A node speaks of no more workers than it
  // has.
  void hear(TimePoint now, const link::Status& status, int local_world_size);
};

// Between two questions to one node of a job of that many.
Duration pause_between_looks(std::size_t nodes);

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

// When a job stops waiting for more nodes. The last call starts once there are enough; when it is
// over, or nobody else can come, the round is sealed. It also lets newcomers into a running round
// together, so that the round is broken once for all of them and not once for each.
class LastCall {
 public:
  struct Seats {
    std::size_t min = 1;
    std::size_t max = 1;
  };

  // `seals_after`: the least that is waited for more nodes before a round is sealed.
  LastCall(Seats seats, Duration length, Duration seals_after = {})
      : seats_(seats), length_(length), seals_after_(std::max(length, seals_after)) {}

  // Gathering, with that many here: is it time to seal?
  bool may_seal(TimePoint now, std::size_t here);
  // Sealed, with that many seated and that many who came later: is it time to let them in?
  bool may_grow(TimePoint now, std::size_t seated, std::size_t waiting);
  void cancel() { over_at_.reset(); }

  // Set while the call runs.
  std::optional<TimePoint> over_at() const { return over_at_; }

 private:
  Seats seats_;
  Duration length_;
  Duration seals_after_;
  std::optional<TimePoint> over_at_;
};

// Which machines may use a job's store: those of the running round. A machine is known by the
// addresses from which its agent has spoken, its link's and a few that the agent showed by speaking
// from them too, and never by what anybody claims: a claim could let in a stranger, or a node that
// was given up. Only the agent in the coordinator's own process is believed about this machine's
// interfaces, and loopback is admitted if one of the nodes is this machine. This fences a node that
// was given up: once the next round is sealed, its address is a stranger's.
//
// Workers usually reach the store at the address at which their agent reached the coordinator, so
// the kernel gives both the same source address. If the master's name has several addresses, the
// agent speaks at each of them. docs/decisions.md explains what this means behind NAT.
class Admission {
 public:
  // From here on, the seated members and nobody else.
  void follow(const Round& round);
  // Fails, with the reason, if that numeric address is not admitted.
  Result<void> check(const std::string& address) const;

 private:
  std::unordered_set<std::string> admitted_;
  bool admits_loopback_ = false;
};

}  // namespace cpprun
