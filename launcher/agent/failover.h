// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where the agent looks for its coordinator after it was lost. A job is either led by one of
// several cpprunds (ClusterFailover, which asks the EndpointRotation in turn), or hosted by a node,
// and another node is its standby (StandbyFailover). A node that took over probes the
// FormerMasters.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent_actions.h"
#include "launcher/agent/coordinator_link.h"
#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "rendezvous/endpoint.h"

namespace cpprun {

// The endpoints of a cluster of cppruns, and which one to ask next for the leader. Each is asked
// once in a cycle. It has no knowledge of time or links.
class EndpointRotation {
 public:
  // The endpoints that the flags name, one or several.
  EndpointRotation(const Endpoint& first, std::vector<Endpoint> named);

  bool several() const { return all().size() > 1; }
  // Each endpoint once, in the order in which they are asked. The last leader comes first.
  std::vector<Endpoint> all() const;
  // The endpoint asked last.
  const Endpoint& at() const { return at_; }
  // The endpoint to ask now. Starts another cycle if every endpoint was asked.
  const Endpoint& next();
  // Completed cycles since a leader was last found.
  int turns() const { return turns_; }

  // leads(): the endpoint at() is the leader. leads_no_more(): it reported that it is a follower.
  void leads();
  void leads_no_more();
  // The leader reported the other endpoints.
  void told(std::vector<Endpoint> others) { told_ = std::move(others); }
  // at() reported that `there` is the leader. It is asked next unless it was asked in this cycle,
  // so two endpoints that name each other are asked once in a cycle.
  void hint(const Endpoint& there);
  // The link to at() is lost, or could not be made. A former leader is asked once more first,
  // unless it fell silent. Returns whether it is too early to ask the next one at once.
  bool lost(bool fell_silent);

 private:
  bool was_asked(const Endpoint& place) const;
  std::optional<Endpoint> left() const;
  void begin_turn();

  std::vector<Endpoint> named_;
  std::vector<Endpoint> told_;
  std::optional<Endpoint> hinted_;
  Endpoint led_last_;
  Endpoint at_;
  bool leads_ = false;           // whether at_ is the leader
  std::vector<Endpoint> asked_;  // in this cycle
  int hints_ = 0;                // in this cycle
  int turns_ = 0;
};

// A cluster of cpprunds, and which of them leads it, in which epoch. If the leader is lost, another
// one becomes the leader and has this node's seat. The workers live on meanwhile, for the announced
// takeover window; coordinator_link.h explains why that is safe.
class ClusterFailover {
 public:
  using Actions = std::vector<agent::Action>;

  // The endpoints that the flags name, one or several.
  ClusterFailover(const Endpoint& first, std::vector<Endpoint> named)
      : places_(first, std::move(named)) {}

  const EndpointRotation& places() const { return places_; }
  // The greatest epoch received. 0: none.
  std::uint64_t epoch() const { return epoch_; }

  // Dials the next endpoint, and the one after it unless that one replies soon.
  void dial(TimePoint now, bool has_seat, CoordinatorLink& link, Actions& actions);
  // The link is lost, or could not be made. Returns the pause before the next attempt.
  CoordinatorLink::Pause lost(bool fell_silent, bool has_seat);
  // The endpoint asked last is the leader; returned.
  const Endpoint& leads();
  // That endpoint reported that it is not the leader, and perhaps which one is.
  void not_leading(const link::NotLeading& answer);

  // A former leader that is back and does not know that it was replaced has announced `epoch`.
  bool is_stale(std::uint64_t epoch) const { return epoch < epoch_; }
  // It does not count as the leader. Warns once for each such epoch, and returns the warning.
  std::string reject(std::uint64_t epoch, Actions& actions);
  // The endpoint asked last leads in `epoch`, which is not stale. Returns the endpoint that this
  // node has followed so far, if leadership moved.
  std::optional<Endpoint> follow(std::uint64_t epoch);
  // The leader reported the members of the cluster, itself first.
  void learn(const std::vector<std::string>& members, Actions& actions);

 private:
  EndpointRotation places_;
  std::uint64_t epoch_ = 0;
  Endpoint followed_;             // sender of that epoch
  std::uint64_t stale_told_ = 0;  // epoch of the stale leader that was last reported
};

// The standby of a job that a node hosts, and this node's vote for it. If the host is lost, the
// standby becomes the leader with the votes of a majority. A cast vote is a promise: until
// NotLeading is received, this node follows no other coordinator (rendezvous/job/leases.h).
class StandbyFailover {
 public:
  using Actions = std::vector<agent::Action>;

  explicit StandbyFailover(Duration lease) : lease_(lease) {}

  // The coordinator has named the standby. `may_vote`: if it is the first one in this round, this
  // node has a vote.
  void named(const link::Standby& standby, bool may_vote);
  bool exists() const { return standby_.has_value(); }
  Endpoint place() const { return {standby_->address, standby_->port}; }
  // This node listens as a standby; is_here(): and the coordinator has named it.
  void listens(const agent::StandsBy& event) { own_ = event; }
  bool is_here() const { return standby_ && own_place_ && *standby_ == *own_place_; }
  // The parts of the coordinator's record arrive in order. Returns the whole one with its last
  // part.
  std::optional<agent::StandBy> record(const link::Record& part);
  // The coordinator on this link is followed from now on: a round is sealed, or this node is a
  // spare of its job. It names the next standby.
  void follow();

  // Whether the coordinator asks for the vote of this round back for the first time.
  bool release_vote();
  bool is_vote_released() const { return is_released_; }
  // This node cannot vote in this round: it has seen the round end, or has done its part.
  void lose_vote() { may_vote_ = false; }
  // The lease of the coordinator, last heard at `heard_at`, expired without an orderly end. A node
  // without a vote in `round` asks the standby without one.
  void consider_voting(TimePoint heard_at, std::optional<RoundNumber> round);
  bool considers() const { return vote_.has_value(); }
  // How long the lost coordinator has been silent. Zero: it is not lost.
  Duration silence(TimePoint now) const;
  // Leadership was transferred in order. Returns whether to this standby in this process, which can
  // take it if `can_lead`. Otherwise there is no standby until the new leader names one.
  bool transferred(const Endpoint& to, bool can_lead);

  // Whether a node other than `master` may lead, so that no other cpprund is asked.
  bool in_use() const { return standby_ || vote_ || has_stepped_down_; }
  // Dials the standby or `master`. A lost coordinator may come back, as long as our vote has not
  // been cast.
  void dial(TimePoint now, const Endpoint& master, CoordinatorLink& link, Actions& actions);
  // The standby that the link, or the last attempt, goes to; null: it goes to the master.
  const Endpoint* dialled() const { return is_at_standby_ ? &dialled_ : nullptr; }
  // The vote that a Join carries on the link that has just come up. A coordinator that is back gets
  // no vote, and there can be no vote after that.
  RoundNumber vote_on_this_link(Actions& actions);
  void not_leading();
  // That link is down, or there was none: schedules the next attempt.
  void link_down(TimePoint now, CoordinatorLink& link) const;
  // The seat is lost: asks the standby for another one, once the vote can be cast.
  void ask_standby(TimePoint now, CoordinatorLink& link) const;

  // When this node votes for itself, if it has not done so. stand() returns the round.
  std::optional<TimePoint> stands_at() const;
  RoundNumber stand();
  // This node is the leader now, or again. No standby can get a majority in the round in which
  // leadership was lost.
  void lead();
  void lead_again();
  // The coordinator in this process lost leadership. The standby may be the leader; this node asks
  // it for a seat like any other node.
  void step_down(TimePoint now, CoordinatorLink& link);
  bool has_stepped_down() const { return has_stepped_down_; }

 private:
  // Our vote in a round whose lease has expired, and the earliest time to cast it. Kept until we
  // follow a coordinator again.
  struct Vote {
    RoundNumber round{};
    TimePoint from{};
    bool is_given = false;  // the standby has received it, or may have
  };

  Duration lease_;
  std::optional<link::Standby> standby_;    // of the current round, or of the lost one
  std::optional<agent::StandsBy> own_;      // set if this node is a standby candidate
  std::optional<link::Standby> own_place_;  // this node as the coordinator names it
  link::Record record_;                     // the parts received so far
  bool may_vote_ = false;                   // in that round, once the lease has expired
  bool is_released_ = false;                // the vote of that round, at the coordinator's request
  std::optional<Vote> vote_;
  bool stands_ = false;  // this node is the standby and has voted for itself
  bool is_at_standby_ = false;
  Endpoint dialled_;
  bool has_stepped_down_ = false;
};

// The former masters of a job that this node leads. A restarted one would wait for nodes that are
// all here, or continue without them, so the leader probes for them, one at a time.
class FormerMasters {
 public:
  bool empty() const { return masters_.empty(); }
  // Leadership moved. Any node may become the leader and must then know all former masters.
  void moved(const Endpoint& from, const Endpoint& to);
  // Probe from now on. The previous master comes first: after a transfer its nodes wait for that.
  void search(TimePoint now);
  // The one to probe now, if that is due.
  std::optional<Endpoint> take_due(TimePoint now);
  // The same as a question: this node leads the job at its endpoint.
  std::optional<agent::AskWhoHosts> ask(TimePoint now, const Config& config,
                                        const AgentFacts& facts);
  TimePoint next_deadline() const { return due_; }

 private:
  std::vector<Endpoint> masters_;
  std::size_t next_ = 0;
  TimePoint due_{};
};

}  // namespace cpprun
