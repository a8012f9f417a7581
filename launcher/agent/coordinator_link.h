// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The agent's link to its coordinator: when to send, dial and give up (CoordinatorLink), and what
// this node reports about itself.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent_actions.h"
#include "launcher/config.h"
#include "launcher/plan/interfaces.h"
#include "launcher/plan/plan.h"
#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "proto/result.h"

namespace cpprun {

// What the agent knows about its machine. All of it is known before the agent starts.
struct AgentFacts {
  std::string host;
  int pid = 0;
  std::uint32_t agent = 0;         // random; see link::Join
  bool hosts_coordinator = false;  // if so, the link is a call within this process and cannot break
  ResolvedProgram program;
  NodeFacts node;                            // `sockets` is filled in once the link is up
  std::vector<NetworkInterface> interfaces;  // of this machine
};

struct JoinState {
  RoundNumber after{};      // the last round it took part in; 0 for a newcomer
  bool idle = false;        // no worker of that round is alive here
  bool done = false;        // idle because all workers exited with 0
  link::AgentTime sent{};   // now, by our clock
  RoundNumber vote{};       // see link::Join
  std::uint64_t epoch = 0;  // see link::Join
  bool fresh = false;       // it has never had a seat
};

// Includes as many of this machine's addresses as fit in the frame.
link::Join join_message(const Config& config, const AgentFacts& facts, const JoinState& state);

// The timing of the agent's link to its coordinator: when to send a heartbeat, when to dial and
// when to give up. It has no knowledge of rounds and workers. A local link, within the
// coordinator's own process, needs no heartbeat and is never silent.
//
// The coordinator drops a node after not receiving anything from it for the lease. The agent counts
// the same lease from when it *sent* the last message known to have arrived. That is never later
// than the coordinator's count, whichever direction of the network is cut. The agent's lease also
// ends a little earlier, because killing takes a moment. So no worker is alive here when the other
// nodes continue.
//
// If another coordinator may replace this one, the coordinator announces a takeover window
// (leads()): how long workers live on after the lease, so that the agent can find the new leader.
// Still, no rank is ever held twice:
// - By the current leader. It drops a node after the lease plus the window in force when it last
//   received from the node. A larger window takes effect before it is announced, and also covers
//   messages received by then. A smaller one applies only to messages received after it was
//   announced. The agent mirrors this: a larger window applies on receipt, a smaller one to replies
//   after it, and none before it was announced on the replying link. Both ends see the messages of
//   a link in one order, so a window never lasts longer here than there.
// - By the next leader. A leader stops replying when its lease expires, and the next leader's lease
//   starts after that. The next leader gives every node the lease plus the largest window
//   announced, counted from its start. Every message that got a reply before was sent before.
//   One node is an exception: a leader that runs beside an agent, as with --rdzv-backend=etcd,
//   announces no window to it, because the leader's host is lost with that node. After a round that
//   this leader has sealed, the next leader gives that node the lease alone. Its workers cannot
//   have an earlier window, which ends with each round (new_round()).
// - By a former leader that is back and does not know that it was replaced. An agent that has
//   followed an epoch ignores replies on a new link until that link announces an epoch that is not
//   smaller (`in_doubt`). The workers' store requests are held back for as long.
class CoordinatorLink {
 public:
  struct Timeouts {
    Duration heartbeat{};  // between two heartbeats we send
    Duration lease{};      // after this much silence the peer counts as lost
    bool local = false;
  };
  // The pause before the next attempt.
  enum class Pause {
    grows,     // with each failed attempt
    is_short,  // because there is a seat to lose
    none       // another endpoint is tried at once
  };

  // Sends heartbeats more often than configured. Zero: as configured.
  void beat_every(Duration pause) { beat_pause_ = pause; }
  // The coordinator now is, or no longer is, in this process. The link is down.
  void become_local(bool is_local);
  // dial_by(): dial at `when` at the latest. dial_at(): dial exactly then.
  void dial_by(TimePoint when);
  void dial_at(TimePoint when) {
    if (!up_) dial_due_ = when;
  }

  // This process was suspended until now, for longer than its lease, and could not receive anything
  // meanwhile. The lease then lasts for another one, in which the coordinator can confirm the seat.
  void overslept(TimePoint now);
  bool awaits_confirmation() const { return confirm_by_.has_value(); }
  // The coordinator did so, or it is too late for that.
  void end_confirmation() { confirm_by_.reset(); }

  // What is due. Each item is returned once.
  struct Due {
    bool heartbeat = false;
    bool dial = false;
  };

  explicit CoordinatorLink(Timeouts timeouts) : timeouts_(timeouts) {}

  // There are other endpoints: give this one up after silence for half the lease, not all of it.
  void be_one_of_several(bool is_one) { is_one_of_several_ = is_one; }

  // `in_doubt`: no reply counts until leads() is called.
  void came_up(TimePoint now, bool in_doubt = false);
  // The peer is the leader. The argument is the takeover window, after the lease.
  void leads(Duration takeover_window);
  // A round begins: no worker of it has lived under an earlier takeover window.
  void new_round() { kept_until_ = {}; }
  // The seat is lost, and with it the takeover window.
  void lose_seat();
  // The link could not be made, or it broke, or it was given up because it fell silent.
  void went_down(TimePoint now, Pause pause = Pause::grows, bool fell_silent = false);
  // Any received message proves that what we sent when this link came up has arrived.
  void heard(TimePoint now);
  // The coordinator replied to what we sent at `sent`. `moment`: its own clock when it replied.
  void answered(TimePoint now, link::AgentTime sent, link::AgentTime moment = {});
  Due take_due(TimePoint now);

  bool up() const { return up_; }
  bool local() const { return timeouts_.local; }
  bool in_doubt() const { return in_doubt_; }
  link::Heartbeat heartbeat(TimePoint now) const;
  Duration round_trip() const { return round_trip_; }  // of a heartbeat; zero: unknown
  // When the last message was received on this link.
  TimePoint heard_at() const { return std::max(heard_, up_since_); }
  // When this link counts as dead, and after how much silence.
  TimePoint silent_at() const { return heard_at() + silence_max(); }
  Duration silence_max() const {
    return is_one_of_several_ ? timeouts_.lease / 2 : timeouts_.lease;
  }
  bool silent(TimePoint now) const { return !local() && up_ && silent_at() <= now; }
  // How long there was no leader before the first message on this link.
  Duration unanswered() const { return unanswered_; }
  // When our lease and the takeover window after it run out, and when this node gives up its seat:
  // later if the coordinator may still confirm it.
  TimePoint lease_over_at() const;
  TimePoint seat_ends_at() const { return confirm_by_.value_or(lease_over_at()); }
  Duration takeover_window() const { return takeover_window_; }
  bool lease_is_over(TimePoint now) const { return !local() && lease_over_at() <= now; }
  // The watchdog's deadline: halfway between ours and the coordinator's, so that it acts only if
  // this process did not.
  TimePoint overdue_at() const { return seat_ends_at() + margin() / 2; }
  // How much shorter our lease is than the coordinator's: killing takes a moment.
  Duration margin() const;
  // When we sent the latest message known to have arrived, and how long ago that was.
  TimePoint proof() const { return proof_; }
  Duration since_last_ack(TimePoint now) const { return now - proof_; }
  // For heartbeats and dialling. The owner watches for silence, because only it knows whether
  // silence matters.
  std::optional<TimePoint> next_deadline() const;

 private:
  Duration heartbeat_pause() const;
  void prove(TimePoint sent);
  TimePoint fence() const { return proof_ + timeouts_.lease + takeover_window_; }

  Timeouts timeouts_;
  bool up_ = false;
  TimePoint up_since_{};
  TimePoint heard_{};
  TimePoint proof_{};           // when we sent the latest message known to have arrived
  Duration takeover_window_{};  // takeover window that applies from proof_
  TimePoint kept_until_{};      // set by earlier replies under a larger takeover window
  bool in_doubt_ = false;
  TimePoint doubted_{};  // becomes proof_ if the peer turns out to be the leader
  std::optional<TimePoint> confirm_by_;
  bool has_heard_ = false;   // received a message on this link
  Duration unanswered_{};    // silence before the first message on this link
  TimePoint alone_since_{};  // since the last leader was lost or fell silent
  bool is_one_of_several_ = false;
  Duration round_trip_{};
  Duration dial_pause_{};  // grows with every failed attempt
  std::optional<TimePoint> dial_due_;
  std::optional<TimePoint> heartbeat_due_;
  Duration beat_pause_{};     // zero: as in timeouts_
  link::AgentTime moment_{};  // the latest received
};

// How other nodes see the node that hosts the coordinator. For other nodes the link provides this.
// Pure: the runtime resolves names and finds the route to an address.

// What is known without a name server, which a single-node job never waits for. `literal` is the
// master's host if that is an address. None: the name has to be resolved.
std::optional<agent::LinkUp> place_alone(const Config& config,
                                         const std::optional<std::string>& literal);

// After resolving: `addresses` are the master's, at least one. `way` is our local address on the
// route to the first.
agent::LinkUp place_among_nodes(const std::vector<std::string>& addresses,
                                const Result<std::string>& way);

}  // namespace cpprun
