// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One round of a job (Round): its members with their ranks, clocks, stats and leases, when it is
// sealed, and which machines may use the job's store.

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
#include "proto/link/message.h"
#include "proto/rank.h"
#include "proto/result.h"
#include "proto/state_machine.h"
#include "rendezvous/job/leases.h"

namespace cpprun {

// Pure functions that assign group ranks (of nodes) and ranks (of workers) from what nodes report
// about themselves. The numbering is torchrun's: workers count through the nodes in order of group
// rank, and again within each role. No node is ever sent the whole list.

// The properties that decide a node's position.
struct Candidate {
  std::optional<int> node_rank = {};  // --node_rank, where the user gave one
  // Its rank in the previous round: survivors stay in order.
  std::optional<GroupRank> previous = {};
  std::string host = {};
  int pid = 0;
};

// The candidates' indices in order of group rank: the n-th entry gets group rank n. A node rank is
// honoured if that seat exists. Survivors keep their order, ahead of newcomers. Newcomers follow in
// natural host order.
std::vector<std::size_t> seat_order(const std::vector<Candidate>& candidates);

// Compares numbers inside a text as numbers: "node2" before "node10".
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

// The offset between an agent's monotonic clock and the coordinator's. Every heartbeat carries the
// time when it was sent and the round trip of the previous one. The fastest of many is accurate to
// half its round trip: congestion only delays, it makes nothing arrive early.
//
// Wall clocks are not used: they jump, and differ by seconds where they are not synchronized.
class ClockOffset {
 public:
  // A message sent at `sent` arrived at `now`. `round_trip` is that of an earlier one; zero:
  // unknown.
  void heard(TimePoint now, link::AgentTime sent, Duration round_trip = {});

  // Converts to the coordinator's clock; nothing before the first message.
  std::optional<TimePoint> by_coordinator(link::AgentTime moment) const;
  // Converts a time of the coordinator's clock to the agent's.
  std::optional<link::AgentTime> by_agent(TimePoint moment) const;

 private:
  std::optional<Duration> ahead() const;

  static constexpr Duration unknown = Duration::max();
  // The minimum of each over some messages.
  struct Least {
    Duration lag = unknown;   // arrival by the coordinator's clock - sending by the agent's
    Duration trip = unknown;  // round trip
  };
  // The window slides by halves. Samples older than two halves are outdated by drift.
  Least current_;
  Least previous_;
  int samples_ = 0;  // in current_
};

struct SeenWorker {
  link::WorkerStats figures;
  TimePoint at{};  // when it was reported
};

// What a node has reported about its workers while a client looked, and when it was last asked.
// Only for display; decides nothing.
struct NodeStats {
  std::optional<TimePoint> asked = {};
  std::vector<SeenWorker> workers = {};  // in order of local rank

  // Reported workers replace what was known of them. A node cannot report more than it has.
  void hear(TimePoint now, const link::Status& status, int local_world_size);
};

// The time between two questions to one node, in a job of that many nodes.
Duration pause_between_looks(std::size_t nodes);

struct Member {
  enum class State { waiting, running, succeeded, drained };

  link::Join join;
  std::string peer;  // numeric address of the other end of its link
  // A few more addresses its agent has connected from, on links of their own.
  std::vector<std::string> further_peers = {};
  bool local = false;          // runs in the coordinator's own process: cannot be lost
  bool claims = false;         // asked for the node rank of another member, which may be dead
  bool leaving = false;        // was asked to stop: gets no seat in the next round
  std::string dismissed = {};  // if an operator asked it to leave: who, and why
  bool connected = true;       // false: its link broke, and may resume until the lease expires
  std::optional<TimePoint> broke_at = {};  // when its link broke
  ClockOffset clock = {};
  State state = State::waiting;
  TimePoint since{};                         // when it entered that state; for people
  std::optional<GroupRank> group_rank = {};  // in this round, or in the previous one
  RankRange ranks = {};
  NodeStats figures = {};  // of its workers in the last sealed round; for people
  std::optional<link::Upgraded> upgraded = {};  // its latest upgrade, if no other was asked for
  std::uint64_t upgrade_asked = 0;              // the number of that one; 0: none

  // Its workers run, or have all exited with 0.
  bool has_workers() const { return state == State::running || state == State::succeeded; }
};

class Round;

// Decides which machines may use a job's store: those of the running round. A machine is identified
// by the addresses from which its agent has connected: that of its link, and a few more that the
// agent proved by connecting from them. Addresses that a node only reports do not count: they could
// admit an unrelated machine, or a node that was given up. Only the agent in the coordinator's own
// process is trusted about this machine's interfaces. Loopback is admitted if one of the nodes is
// this machine. This fences a node that was given up: once the next round is sealed, its address is
// not admitted.
//
// Workers usually reach the store at the address at which their agent reached the coordinator, so
// the kernel gives both the same source address. If the master's name has several addresses, the
// agent connects to each of them. docs/decisions.md explains what this means behind NAT.
class Admission {
 public:
  // From here on, admits the members with a seat and no other machine.
  void follow(const Round& round);
  // Fails with the reason if that numeric address is not admitted.
  Result<void> check(const std::string& address) const;

 private:
  std::unordered_set<std::string> admitted_;
  bool admits_loopback_ = false;
};

// One agreed membership of a job, and how it leads to the next:
//
//   gathering   Members join and wait for a seat. Sealed when enough are present.
//   sealed      Members with a seat have ranks, and their workers run. A member has `succeeded`
//   when
//               all of its workers exited with 0.
//   draining    The round is broken: every member with a seat ends its workers and reports that.
//   When
//               no worker of the round is left anywhere, all members wait again: gathering.
//
// Round knows its members and their states, how long each may be silent (Leases), and which
// machines may use the store (Admission). JobRounds decides why a round breaks, and whether another
// follows.
class Round {
 public:
  // The message for each seat, by link.
  using Seats = std::vector<std::pair<LinkId, link::Sealed>>;
  enum class Phase { gathering, sealed, draining };
  static constexpr PhaseStep<Phase> steps[] = {{Phase::gathering, Phase::sealed},
                                               {Phase::sealed, Phase::draining},
                                               {Phase::draining, Phase::gathering}};

  // A round as its previous coordinator left it.
  struct Past {
    RoundNumber number{};
    Phase phase = Phase::gathering;
    int world_size = 0;
  };
  // `lease`: silence after which a member is lost.
  explicit Round(Duration lease = {}) : leases_(lease) {}
  Round(const Past& past, std::vector<std::pair<LinkId, Member>> members, Duration lease = {});

  RoundNumber number() const { return number_; }
  Phase phase() const { return phase_; }
  std::size_t size() const { return members_.size(); }
  // Members that were not asked to stop.
  std::size_t staying() const { return size() - leaving_; }
  // Members whose link broke, and may come back.
  std::size_t away() const { return away_; }
  // Members that asked for another member's node rank, while it is not known whether that one is
  // alive.
  std::size_t claims() const { return claims_; }
  std::size_t count(Member::State state) const { return counts_[index_of(state)]; }
  // Workers of the last sealed round.
  int world_size() const { return world_size_; }
  // Visits every member, in no particular order.
  template <class Visit>
  void each(Visit&& visit) const {
    for (const auto& [link, member] : members_) visit(link, member);
  }
  // In node order: by seat number, then by link.
  std::vector<std::pair<LinkId, const Member*>> members() const;
  // The violated invariant, if any.
  std::optional<std::string> check() const;
  // For a job that may decide, and is not over: the violated invariant of its leases and its
  // admission, if any.
  std::optional<std::string> check_leases() const;

  const Leases& leases() const { return leases_; }
  Leases& leases() { return leases_; }
  // Fails with the reason if that numeric address may not use the store.
  Result<void> admits(const std::string& address) const { return admission_.check(address); }

  const Member* find(LinkId link) const;
  // Gives every node the master's addresses, and the master those of another node.
  void tell_neighbours(Seats& seats) const;
  // For the sealed round: what seal() and tell_neighbours() produced for that node. Nothing if not
  // all nodes that had a seat are still here.
  std::optional<link::Sealed> seat_of(LinkId link) const;
  // The member in the coordinator's own process.
  const Member* local_member() const;
  // The member that has that node rank, or was the first to ask for it.
  const Member* holder_of(int node_rank) const;
  // The member that asked for it after that one, to replace it if it is dead. There is at most one.
  std::optional<LinkId> claimant_of(int node_rank) const;
  // The member with this agent, for a link that comes back: same host, pid and random number,
  // because containers repeat the first two. If several match, the one with the same address.
  std::optional<LinkId> find_agent(const link::Join& join, const std::string& peer) const;

  // Its lease starts, unless it runs in the coordinator's own process. A member that asks for a
  // taken node rank claims it until the holder is gone or the claim is rejected.
  void enter(LinkId link, Member member);
  void leave(LinkId link);
  void set_state(LinkId link, Member::State state, TimePoint now);
  // It gets no seat in the next round. `dismissed`: who wants that, if not the node itself.
  void mark_leaving(LinkId link, std::string dismissed = {});
  // Its link broke at `broke_at`, or is back if that is nothing.
  void set_broken(LinkId link, std::optional<TimePoint> broke_at);
  // It runs in the coordinator's own process from now on.
  void set_local(LinkId link);
  // Its agent has also connected from that address. Kept if there are not enough yet.
  void add_peer(LinkId link, const std::string& peer);
  ClockOffset& clock_of(LinkId link) { return members_.at(link).clock; }
  NodeStats& figures_of(LinkId link) { return members_.at(link).figures; }
  void ask_upgrade(LinkId link, std::uint64_t number);
  // A repeated report of an earlier upgrade does not end an upgrade that was asked for later.
  void set_upgraded(LinkId link, const link::Upgraded& upgraded);
  // The agent on link `from` uses link `to` from now on. Its lease continues.
  void move(LinkId from, LinkId to);

  // The next round's number is greater than that one, unless a round is running already.
  void number_from(RoundNumber number) {
    if (phase_ == Phase::gathering && number_.value < number.value) number_ = number;
  }
  // Gathering → sealed. At most `seats_max` of the waiting members get a seat: survivors of the
  // previous round first, then in order of arrival. The others keep waiting, as spares. Returns the
  // message for each seat, by link.
  Seats seal(int seats_max, TimePoint now);
  // Sealed → draining.
  void break_up();
  // Draining → gathering. All members with a seat have drained, and wait again.
  void gather_again(TimePoint now);

  // Members that have a seat in the sealed or draining round.
  std::size_t seated() const { return size() - count(Member::State::waiting); }

  // "2 of 4 nodes have joined; missing: node rank 1, node rank 3"
  std::string who_is_missing(int nodes_wanted) const;
  // "node 1 on host-b, node 2 on host-c": some of the members in that state.
  std::string who_is(Member::State state) const;
  std::string who_is_away() const;
  std::string who_is_here() const;

 private:
  std::vector<LinkId> chosen(int seats_max) const;
  link::Sealed seat(const Member& member, std::size_t nodes) const;
  void remember_seats();
  std::vector<std::string> addresses_of(LinkId link) const;
  void forget_agent(LinkId link, const Member& member);
  void forget_wanted_rank(LinkId link, const Member& member);
  template <class Predicate>
  std::string names_of(Predicate&& which) const;
  static std::size_t index_of(Member::State state) { return static_cast<std::size_t>(state); }

  PhaseOf<Phase> phase_{Phase::gathering, steps};
  RoundNumber number_{};
  int world_size_ = 0;
  // Of the last sealed round: the number of seats (0: not all are known), the master, and the first
  // of the other nodes.
  std::size_t seats_ = 0;
  std::vector<LinkId> front_;
  std::unordered_map<LinkId, Member> members_;
  // Invariant: for each state, how many of members_ are in it.
  std::array<std::size_t, 4> counts_{};
  std::size_t leaving_ = 0;  // of members_: how many are leaving
  std::size_t away_ = 0;     // of members_: how many are not connected
  std::size_t claims_ = 0;   // of members_: how many claim a rank that another member has
  // At most two for each rank: its holder and its claimant.
  std::unordered_multimap<int, LinkId> by_node_rank_;
  // By a hash of host and pid, which several may share. When a network comes back, ten thousand
  // agents resume at once.
  std::unordered_multimap<std::size_t, LinkId> by_agent_;
  // Invariant: a member that is connected has one, unless it is local or the job does not decide.
  Leases leases_;
  Admission admission_;  // Invariant: admits the peers of all members with a seat.
};

// "node 1 on host-b", or "host-b" before it has a rank.
std::string name_of(const Member& member);

// Decides when a job stops waiting for more nodes. The last call starts once enough nodes are
// present. When it ends, or no further node can join, the round is sealed. It also admits newcomers
// to a running round together, so that the round is broken once for all of them and not once for
// each.
class LastCall {
 public:
  struct Seats {
    std::size_t min = 1;
    std::size_t max = 1;
  };

  // `seals_after`: the minimum time to wait for more nodes before a round is sealed.
  LastCall(Seats seats, Duration length, Duration seals_after = {})
      : seats_(seats), length_(length), seals_after_(std::max(length, seals_after)) {}

  // Gathering, with that many nodes present: is it time to seal?
  bool may_seal(TimePoint now, std::size_t here);
  // Sealed, with that many nodes seated and that many waiting: is it time to let them in?
  bool may_grow(TimePoint now, std::size_t seated, std::size_t waiting);
  void cancel() { over_at_.reset(); }

  // Set while the last call runs.
  std::optional<TimePoint> over_at() const { return over_at_; }

 private:
  Seats seats_;
  Duration length_;
  Duration seals_after_;
  std::optional<TimePoint> over_at_;
};

}  // namespace cpprun
