// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The agent's way to its coordinator: when to send, dial and give up (CoordinatorLink), where to
// ask (Places), and a second master (RivalMaster).

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent_actions.h"
#include "launcher/agent/agent_messages.h"
#include "launcher/config.h"
#include "launcher/endpoint.h"
#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/result.h"

namespace cpprun {

// The agent's link to its coordinator as a set of times: when to send a heartbeat, when to dial,
// when to give up. Knows nothing of rounds and workers. A local link, within the coordinator's own
// process, needs no heartbeat and is never silent.
//
// The coordinator gives a node up after hearing nothing from it for the lease. The agent counts the
// same lease from when it *sent* the last message known to have arrived. That is never later than
// the coordinator's count, whichever direction of the network is cut; and it ends a little earlier,
// because killing takes a moment. So nobody is alive here when the others go on.
//
// Where another coordinator may take this one's place, it says for how long the node's workers live
// on after the lease, so that the other one can be found: the patience. No rank is held twice for
// all that:
// - With the coordinator that answers. It gives a node up after the lease and the patience that was
//   in force when it heard the node last: a larger one is in force before it is said, for what was
//   heard by then as well, and a smaller one only for what is heard after it was said. Here, too,
//   a larger one counts as soon as it is heard, a smaller one for what is answered after it, and
//   none before it was said on the link that answers. Both ends see a link's words in one order; so
//   what was sent counts here for no longer than there.
// - With the next coordinator. One that leads answers no more when its right to lead has ended, and
//   the next one's begins after that. It gives every node the lease and the largest patience that
//   was said, from then on; all that was answered before was sent before.
// - With one that was lost and is back, and does not know yet that another one leads. Whoever has
//   followed an epoch counts no answer of another link before an epoch has been said on it that is
//   no smaller (`in_doubt`), and what workers say to their store waits as long.
class CoordinatorLink {
 public:
  struct Timeouts {
    Duration heartbeat{};  // between two of ours
    Duration lease{};      // of silence, after which the other side is taken for gone
    bool local = false;
  };
  // Before the next attempt.
  enum class Pause {
    grows,     // with each that fails
    is_short,  // there is a seat to lose
    none       // another place is to be tried
  };

  // Says more often that we are here than it was meant to; zero: as it was meant to.
  void beat_every(Duration pause) { beat_pause_ = pause; }
  // The coordinator is in this process from now on, or is not any more; the link is down.
  void become_local(bool is_local);
  // It is dialled at that time, if not before.
  void dial_by(TimePoint when);
  void dial_at(TimePoint when) {
    if (!up_) dial_due_ = when;
  }

  // This process did not run until now: nothing could be heard meanwhile.
  void overslept(TimePoint now);

  // What has come due, each of it told once.
  struct Due {
    bool heartbeat = false;
    bool dial = false;
  };

  explicit CoordinatorLink(Timeouts timeouts) : timeouts_(timeouts) {}

  // Another place is dialled where nothing is heard from this one for half of the lease.
  void be_one_of_several(bool is_one) { is_one_of_several_ = is_one; }

  // `in_doubt`: nothing that is answered counts before leads() is told.
  void came_up(TimePoint now, bool in_doubt = false);
  // Whoever answers leads, and for so long our workers live on after the lease.
  void leads(Duration patience);
  // There is no seat any more, and nobody has said anything of patience.
  void lose_seat();
  // It could not be made, or it broke.
  void went_down(TimePoint now, Pause pause = Pause::grows);
  // Any message proves that what we sent when this link came up has arrived.
  void heard(TimePoint now);
  // The coordinator has answered what we sent then, by its own clock at that moment.
  void answered(TimePoint now, link::AgentTime sent, link::AgentTime moment = {});
  Due take_due(TimePoint now);

  bool up() const { return up_; }
  bool local() const { return timeouts_.local; }
  bool in_doubt() const { return in_doubt_; }
  link::Heartbeat heartbeat(TimePoint now) const;
  Duration round_trip() const { return round_trip_; }  // of a heartbeat; zero: not known
  // When something was heard last, on this link.
  TimePoint heard_at() const { return std::max(heard_, up_since_); }
  // From when on this link counts as dead, and after how much silence.
  TimePoint silent_at() const { return heard_at() + silence_max(); }
  Duration silence_max() const {
    return is_one_of_several_ ? timeouts_.lease / 2 : timeouts_.lease;
  }
  bool silent(TimePoint now) const { return !local() && up_ && silent_at() <= now; }
  // When our lease runs out, and the patience after it.
  TimePoint lease_over_at() const;
  Duration patience() const { return patience_; }
  bool lease_is_over(TimePoint now) const { return !local() && lease_over_at() <= now; }
  // The watchdog's deadline: halfway between ours and the coordinator's, so that it acts only if
  // this process did not.
  TimePoint overdue_at() const { return lease_over_at() + margin() / 2; }
  // By how much our lease is shorter than the coordinator's: killing takes a moment.
  Duration margin() const;
  // When we sent the latest message that is known to have arrived, and how long ago that was.
  TimePoint proof() const { return proof_; }
  Duration since_last_ack(TimePoint now) const { return now - proof_; }
  // For heartbeats and dialling. Silence is for the owner to watch, who knows whether it matters.
  std::optional<TimePoint> next_deadline() const;

 private:
  Duration heartbeat_pause() const;
  void prove(TimePoint sent);
  TimePoint fence() const { return proof_ + timeouts_.lease + patience_; }

  Timeouts timeouts_;
  bool up_ = false;
  TimePoint up_since_{};
  TimePoint heard_{};
  TimePoint proof_{};       // when we sent the latest of what provably arrived
  Duration patience_{};     // that counts with it
  TimePoint kept_until_{};  // by what was answered before, and a larger patience
  bool in_doubt_ = false;
  TimePoint doubted_{};  // what proof_ becomes if whoever answers leads
  bool is_one_of_several_ = false;
  Duration round_trip_{};
  Duration dial_pause_{};  // grows with every attempt that fails
  std::optional<TimePoint> dial_due_;
  std::optional<TimePoint> heartbeat_due_;
  Duration beat_pause_{};     // zero: as in timeouts_
  link::AgentTime moment_{};  // the latest that was heard
};

// Where the cppruns of a set are met, of which one leads, and whom to ask next for the one that
// does: each of them once in a turn. Knows no time and no link.
class Places {
 public:
  // As flags name them: one, or several.
  Places(const Endpoint& first, std::vector<Endpoint> named);

  bool several() const { return all().size() > 1; }
  // Each once, in the order in which they are asked: the one that led last comes first.
  std::vector<Endpoint> all() const;
  // The one that was asked last.
  const Endpoint& at() const { return at_; }
  // Whom to ask now. A turn in which nobody is left is followed by another.
  const Endpoint& next();
  // How many turns have ended since somebody led.
  int turns() const { return turns_; }

  // The one at at() leads; or has said so, and does not.
  void leads();
  void leads_no_more();
  // It has said where the others are.
  void told(std::vector<Endpoint> others) { told_ = std::move(others); }
  // It has said that this one leads: it is the next, if it was not asked in this turn. So two that
  // name each other are asked once in a turn.
  void hint(const Endpoint& there);
  // There is no link to it any more, or none could be made. One that led is asked first once more,
  // unless it fell silent. Whether it is too early to ask the next one at once.
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
  bool leads_ = false;           // the one at at_
  std::vector<Endpoint> asked_;  // in this turn
  int hints_ = 0;                // in this turn
  int turns_ = 0;
};

// From where the node that hosts the coordinator is seen by the others, which is what a link tells
// everybody else. Pure: the runtime looks names up and asks for the way to an address.

// What is known without asking a name server, which a job of one node never waits for; `literal` is
// the master's host, where that is an address. Absent: the name has to be looked up.
std::optional<agent::LinkUp> place_alone(const Config& config,
                                         const std::optional<std::string>& literal);

// Once that is done: the addresses it stands for, at least one, and from which of ours the first of
// them is reached.
agent::LinkUp place_among_nodes(const std::vector<std::string>& addresses,
                                const Result<std::string>& way);

// Two nodes of one job that both believe they are its master wait for ever, each for the other. So
// while it waits, a master whose address leads elsewhere asks there now and then who hosts: another
// master, or this very node, reached by a roundabout way.
class RivalMaster {
 public:
  // Nothing is asked where all of the master's addresses are this machine's.
  void look_at(TimePoint now, std::vector<std::string> addresses);
  void stop() { due_.reset(); }
  std::optional<TimePoint> next_deadline() const { return due_; }
  // The addresses at which to ask now; none where it is not time.
  std::vector<std::string> take_due(TimePoint now);

 private:
  std::vector<std::string> addresses_;
  std::optional<TimePoint> due_;
};

struct RivalVerdict {
  std::string sentence;  // empty: there is no rival
  bool same_job = false;
};

// What somebody's answer means for this node.
RivalVerdict judge_rival(const Config& config, const AgentFacts& facts, const link::Hosts& answer);

}  // namespace cpprun
