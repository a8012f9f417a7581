// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One job as its coordinator sees it (Job).

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "proto/result.h"
#include "rendezvous/job/coordinator_actions.h"
#include "rendezvous/job/exclusions.h"
#include "rendezvous/job/hang_watch.h"
#include "rendezvous/job/job_leadership.h"
#include "rendezvous/job/job_nodes.h"
#include "rendezvous/job/job_record.h"
#include "rendezvous/job/job_rounds.h"
#include "rendezvous/job/job_terms.h"
#include "rendezvous/job/leases.h"
#include "rendezvous/job/operator_command.h"
#include "rendezvous/job/round.h"

namespace cpprun {

// One job as its coordinator sees it: a state machine without sockets. Its inputs are the messages
// of agents, what becomes of their links, the orders of operators, and the time; it appends the
// actions to perform to a list. JobNodes knows which nodes are here, and JobRounds what becomes of
// the rounds (docs/states.md, "Round and Job").
class Job {
 public:
  using Actions = coordinator::Actions;

  Job(JobTerms terms, JobOptions options);
  // Resumes a job from the record that another coordinator left. Its nodes are not connected yet;
  // they have one lease to reconnect. Until then their links are `first` and the following ones. A
  // sealed round continues if its store does (`has_store`), and must be restarted if the store is
  // lost.
  Job(TimePoint now, const JobRecord& record, const JobOptions& options, LinkId first,
      bool has_store = false);
  // What the next coordinator needs to know. The caller sets `founder` and `owner`.
  JobRecord record() const;
  // Grows whenever the record changes. 0: there is nothing to keep yet.
  std::uint64_t steps() const { return rounds_.steps(); }

  // After recovery: this node hosted the lost coordinator. `heard`: when the nodes last received
  // something from it; their work since then is lost.
  void lose_host(TimePoint now, TimePoint heard, LinkId link, Actions& actions);
  // After recovery: this node hosted the previous coordinator, which transferred leadership to this
  // one.
  void succeed_host(TimePoint now, LinkId link, Actions& actions);
  // This coordinator has transferred leadership to its standby, or is trying to.
  bool transfers_leadership() const { return leadership().is_transfer_requested(); }
  // Where to redirect nodes that connect after a transfer; nothing if there was none.
  const std::optional<link::Led>& transferred_to() const { return leadership().transferred_to(); }
  // Another coordinator leads the job: stops deciding and redirects the nodes. Returns false, and
  // does nothing, if the job runs here or is over.
  bool step_aside(TimePoint now, const link::Led& led, Actions& actions) {
    return rounds_.step_aside(now, led, nodes_, actions);
  }
  // This coordinator may not decide: another one leads, or may lead.
  bool is_deposed() const { return leadership().is_deposed(); }
  // For a deposed coordinator: a node of its round asks for a seat. That node no longer has a vote
  // in the round. Returns true if no standby can have a majority, so that lead_again() may be
  // called.
  bool takes_back_vote(const Caller& caller, const link::Join& join) {
    return rounds_.takes_back_vote(caller.link, join, round());
  }
  // Resumes leadership. The round drains; nodes that may have workers have one lease to reconnect.
  void lead_again(TimePoint now, Actions& actions);

  // Its round runs, but the store it started with was lost with another coordinator.
  bool has_lost_its_store() const { return rounds_.has_lost_its_store(); }
  // The node has a seat in a round that continues.
  bool keeps_round_of(LinkId link) const;

  const JobTerms& terms() const { return rounds_.terms(); }
  const Round& round() const { return nodes_.round(); }
  const JobRounds& rounds() const { return rounds_; }
  const JobLeadership& leadership() const { return rounds_.leadership(); }
  bool over() const { return rounds_.over(); }
  const std::optional<link::Finish>& finish() const { return rounds_.finish(); }
  // Silence after which a node is lost.
  Duration lease() const { return round().leases().length(); }
  // When the current phase started, or the job ended; nothing if no node has joined yet.
  std::optional<TimePoint> since() const { return rounds_.since(); }
  // What the nodes wait for, as a sentence; empty while workers run, or after the end.
  std::string waits_for(TimePoint now) const { return rounds_.waits_for(now, round()); }
  // For people: what happens if the coordinator is lost (JobLeadership).
  std::string cover_text() const { return over() ? "" : leadership().cover_text(round()); }
  std::string exposure_text() const { return over() ? "" : leadership().exposure_text(round()); }

  // What its workers were doing when that was last captured; nothing before the first time.
  const std::optional<JobCapture>& last_capture() const { return hangs_.last(); }
  bool is_capturing() const {
    return hangs_.is_gathering() && round().phase() == Round::Phase::sealed && !over();
  }

  // A client looks at the job: for a while nodes are asked for worker stats.
  void look(TimePoint now, Actions& actions);

  // Whether the round that runs or drains admits store clients from that numeric address. A
  // draining round does, because a worker that was asked to end may open a connection to save its
  // state.
  Result<void> admit(const std::string& peer) const;

  // No node of the job is connected: since when, and until when nodes may still compute.
  struct Unattended {
    TimePoint since;
    TimePoint until;
  };
  std::optional<Unattended> unattended() const;

  // Why the coordinator's own node has not joined yet. Shown to the nodes that wait for it.
  void master_waits(std::string why) { rounds_.master_waits(std::move(why)); }
  void join(TimePoint now, const Caller& caller, const link::Join& join, Actions& actions);
  void hear(TimePoint now, LinkId link, const link::Message& message, Actions& actions);
  // The agent also connects from that address, so its workers are admitted from there. Returns
  // false if there is no such agent.
  bool speaks_from(const link::WhoHosts& agent, const std::string& peer) {
    return nodes_.speaks_from(agent, peer);
  }
  struct Closing {
    LinkId link;
    std::string reason;
    bool broken = false;  // neither side closed it: the agent may come back
  };
  void close(TimePoint now, const Closing& closing, Actions& actions);
  // Executes an operator's order at once, or rejects it with a sentence that includes a hint. None
  // is queued. `forget` is handled by the owner of this object.
  CommandResult command(TimePoint now, const OperatorCommand& command, Actions& actions);
  // The hosts that are excluded wherever this job runs. To be called before any node joins.
  void exclude_as(const Exclusions& exclusions) { nodes_.exclusions() = exclusions; }
  // Why the nodes of that host cannot be asked to leave; nothing if they can, or if there are none.
  std::optional<CommandResult> objection_to_exclude(const std::string& host) const;
  void advance(TimePoint now, Actions& actions);
  // A worker of the running round has used its store: from now on its time counts as training.
  void store_asked(TimePoint now) { rounds_.store_asked(now, round()); }
  void found_process_group(Actions& actions) { rounds_.found_process_group(round(), actions); }
  std::optional<TimePoint> next_deadline() const;
  // The violated invariant, if any.
  std::optional<std::string> check() const { return rounds_.check(nodes_); }

 private:
  bool rejoin(TimePoint now, const Caller& caller, const link::Join& join, Actions& actions);
  void resume(TimePoint now, LinkId old_link, const Caller& caller, const link::Join& join,
              Actions& actions);
  void give_up_seat(TimePoint now, LinkId link, Actions& actions);
  bool may_rejoin(const Member& member) const;
  void answer(TimePoint now, LinkId link, const link::Heartbeat& beat, Actions& actions);
  void give_up_silent(TimePoint now, Actions& actions);
  void lose(TimePoint now, const Leases::Expired& expired, const std::string& why,
            Actions& actions);
  CommandResult stop(TimePoint now, const OperatorCommand& command, Actions& actions);
  CommandResult restart(TimePoint now, const OperatorCommand& command, Actions& actions);
  CommandResult save(TimePoint now, int signal, Actions& actions);
  // A preemption notice: the node will be taken away soon. All workers save while it is still
  // there.
  void succeeded(TimePoint now, LinkId link, Actions& actions);
  void noticed(TimePoint now, const Member& member, const std::string& notice, Actions& actions);
  CommandResult capture(TimePoint now, const OperatorCommand& command, Actions& actions);
  CommandResult drain(TimePoint now, const OperatorCommand& command, Actions& actions);
  CommandResult exclude(TimePoint now, const OperatorCommand& command, Actions& actions);
  CommandResult include(TimePoint now, const OperatorCommand& command);
  CommandResult upgrade(TimePoint now, const OperatorCommand& command, Actions& actions);
  std::optional<CommandResult> objection_to_dismiss(const std::vector<LinkId>& links) const;
  void dismiss(TimePoint now, const std::vector<LinkId>& links, const std::string& why,
               Actions& actions);

  // Scope guard for each change of a job: when it ends, the time accounting learns where all nodes
  // are.
  class TimeKept;

  // The last save that was requested.
  struct Save {
    RoundNumber round{};
    TimePoint due{};
  };

  JobNodes nodes_;
  JobRounds rounds_;
  HangWatch hangs_;
  std::optional<Save> save_;
};

}  // namespace cpprun
