// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One job as its coordinator sees it (Job).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/link/message.h"
#include "proto/result.h"
#include "rendezvous/job/coordinator_actions.h"
#include "rendezvous/job/exclusions.h"
#include "rendezvous/job/job_record.h"
#include "rendezvous/job/job_terms.h"
#include "rendezvous/job/leases.h"
#include "rendezvous/job/order.h"
#include "rendezvous/job/restart_policy.h"
#include "rendezvous/job/round.h"
#include "rendezvous/job/round_outcome.h"
#include "rendezvous/job/time_accounting.h"

namespace cpprun {

// The agent that joins: its numeric address, whether it runs in the coordinator's own process, and
// the owner of the secret that it has proven to hold.
struct Caller {
  LinkId link;
  std::string peer;
  bool local = false;
  std::string owner = {};  // empty: no secret; agents with the same owner share their jobs
};

// One job as its coordinator sees it: which nodes have a seat, what failed first, how many restarts
// are left, how it ended. This is a state machine without sockets. Its inputs are the messages of
// agents and the time; it appends the actions to perform to a list (docs/states.md, "Round and
// Job").
//
//   gathering ──enough here──► sealed ──failure, loss, change, stop──► draining ──all drained──┐
//       ▲                         │                                                            │
//       │                         └─all succeeded────────► over ◄──no restart left, stopped────┤
//       └────────────────── a restart is left, or only the membership changed ─────────────────┘
//
// The rules that matter most:
//   - A round is sealed only when no worker of the previous one is alive where it can be reached:
//     two workers with the same rank never coexist.
//   - A failure is the job's, not the node's: one budget, one first cause, one exit code.
//   - A change of membership uses no restart. In a job of fixed size, the round waits for a
//     replacement, or a spare takes the seat. An elastic job continues with the remaining nodes
//     while they are at least MIN, and admits newcomers together when the last call ends.
class Job {
 public:
  Job(JobTerms terms, JobOptions options);
  // Resumes a job from the record that another coordinator left (job_recovery.cpp). Its nodes are
  // not connected yet; they have one lease to reconnect. Until then their links are `first` and the
  // following ones. A sealed round continues if its store does (`has_store`), and must be restarted
  // if the store is lost.
  Job(TimePoint now, const JobRecord& record, JobOptions options, LinkId first,
      bool has_store = false);
  // After that constructor: the store could not be restored after all.
  void lose_store(TimePoint now, coordinator::Actions& actions);
  // What the next coordinator needs to know. The caller sets `founder` and `owner`.
  JobRecord record() const;
  // Grows whenever the record changes. 0: there is nothing to keep yet.
  std::uint64_t steps() const { return steps_; }

  // --- the standby: the node that takes over if this coordinator is lost (job_standby.cpp) ---
  // The node that must have the record of the current step.
  std::optional<LinkId> standby() const {
    return standby_ ? std::optional(standby_->link) : std::nullopt;
  }
  // Where the other nodes reach the standby; nothing if no node can take over.
  std::optional<link::Standby> standby_place() const;
  // Until when this coordinator may decide, as far as is known; nothing: without limit.
  std::optional<TimePoint> leads_until() const { return leads_until_; }
  // The standby, and a sentence for people about what happens if the coordinator is lost. The
  // sentence is empty unless a round of several nodes runs.
  std::optional<GroupRank> standby_node() const;
  std::string cover_text() const;
  // That sentence with a hint, if a node hosts the job and there is no standby although there
  // should be one; otherwise empty.
  std::string exposure_text() const;
  // After recovery: this node hosted the lost coordinator. `heard`: when the nodes last received
  // something from it; their work since then is lost.
  void lose_host(TimePoint now, TimePoint heard, LinkId link, coordinator::Actions& actions);
  // After recovery: this node hosted the previous coordinator, which transferred leadership to this
  // one.
  void succeed_host(TimePoint now, LinkId link, coordinator::Actions& actions);
  // This coordinator has transferred leadership to its standby, or is trying to.
  bool transfers_leadership() const { return own_leave_.has_value(); }
  // Where to redirect nodes that connect after a transfer; nothing if there was none.
  const std::optional<link::Led>& transferred_to() const { return transferred_to_; }
  // Another coordinator leads the job: stops deciding and redirects the nodes. Returns false, and
  // does nothing, if the job runs here or is over.
  bool step_aside(TimePoint now, const link::Led& led, coordinator::Actions& actions);
  // This coordinator may not decide: another one leads, or may lead.
  bool is_deposed() const { return is_deposed_; }
  // For a deposed coordinator: a node of its round asks for a seat. That node no longer has a vote
  // in the round. Returns true if no standby can have a majority, so that lead_again() may be
  // called.
  bool takes_back_vote(const Caller& caller, const link::Join& join);
  // Resumes leadership. The round drains; nodes that may have workers have one lease to reconnect.
  void lead_again(TimePoint now, coordinator::Actions& actions);

  // Its round runs, but the store it started with was lost with another coordinator.
  bool has_lost_its_store() const { return has_lost_its_store_; }
  // The node has a seat in a round that continues.
  bool keeps_round_of(LinkId link) const;

  const JobTerms& terms() const { return terms_; }
  const Round& round() const { return round_; }
  bool over() const { return finish_.has_value(); }

  // For rendezvous/status.
  const std::optional<link::Finish>& finish() const { return finish_; }
  // Silence after which a node is lost.
  Duration lease() const { return options_.lease + options_.patience; }
  const Leases& leases() const { return leases_; }
  const RestartPolicy& policy() const { return policy_; }
  const RoundEnd& round_end() const { return round_end_; }
  const RoundHistory& history() const { return history_; }
  const TimeAccounting& time() const { return time_; }
  bool pauses() const { return pause_until_.has_value(); }
  // When the current phase started, or the job ended; nothing if no node has joined yet.
  std::optional<TimePoint> since() const { return since_; }
  // What the nodes wait for, as a sentence; empty while workers run, or after the end.
  std::string waits_for(TimePoint now) const;

  // A client looks at the job: for a while nodes are asked for worker stats, each at its next
  // heartbeat.
  void look(TimePoint now, coordinator::Actions& actions);

  // Whether the round that runs or drains admits store clients from that numeric address. A
  // draining round does, because a worker that was asked to end may open a connection to save its
  // state.
  Result<void> admit(const std::string& peer) const {
    if (round_.phase() == Round::Phase::gathering || over()) return failure("no round is running");
    if (has_lost_its_store_ || is_deposed_) return failure("the store of its round is gone");
    return admission_.check(peer);
  }

  // No node of the job is connected: since when, and until when nodes may still compute.
  struct Unattended {
    TimePoint since;
    TimePoint until;
  };
  std::optional<Unattended> unattended() const;

  // Why the coordinator's own node has not joined yet. Shown to the nodes that wait for it.
  void master_waits(std::string why) { master_waits_ = std::move(why); }
  void join(TimePoint now, const Caller& caller, const link::Join& join,
            coordinator::Actions& actions);
  void hear(TimePoint now, LinkId link, const link::Message& message,
            coordinator::Actions& actions);
  // The agent also connects from that address, so its workers are admitted from there. Returns
  // false if there is no such agent.
  bool speaks_from(const link::WhoHosts& agent, const std::string& peer);
  struct Closing {
    LinkId link;
    std::string reason;
    bool broken = false;  // neither side closed it: the agent may come back
  };
  void close(TimePoint now, const Closing& closing, coordinator::Actions& actions);
  // Executes an operator's order, or rejects it with a sentence. `forget` is handled by the owner
  // of this object.
  OrderOutcome order(TimePoint now, const Order& order, coordinator::Actions& actions);
  // The hosts that are excluded wherever this job runs. To be called before any node joins.
  void exclude_as(const Exclusions& exclusions) { exclusions_ = exclusions; }
  // Why the nodes of that host cannot be asked to leave; nothing if they can, or if there are none.
  std::optional<OrderOutcome> objection_to_exclude(const std::string& host) const;
  void advance(TimePoint now, coordinator::Actions& actions);
  // A worker of the running round has used its store: from now on its time counts as training.
  void store_asked(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  // The violated invariant, if any.
  std::optional<std::string> check() const;

 private:
  bool rejoin(TimePoint now, const Caller& caller, const link::Join& join,
              coordinator::Actions& actions);
  void rejoin_without_seat(TimePoint now, LinkId old_link, const Caller& caller,
                           const link::Join& join, coordinator::Actions& actions);
  void give_up_seat(TimePoint now, LinkId link, coordinator::Actions& actions);
  void say_seat(LinkId link, link::Sealed sealed, coordinator::Actions& actions) const;
  void resume(TimePoint now, LinkId old_link, const Caller& caller, const link::Join& join,
              coordinator::Actions& actions);
  Duration ask_for_figures(TimePoint now, LinkId link);
  void answer(TimePoint now, LinkId link, const link::Heartbeat& beat,
              coordinator::Actions& actions);
  static TimePoint when(TimePoint now, const Member& member, link::AgentTime moment);
  void failed(TimePoint now, const Member& member, link::Failed failed,
              coordinator::Actions& actions);
  void leave(TimePoint now, LinkId link, const link::Leave& leave, coordinator::Actions& actions);
  void give_up_silent(TimePoint now, coordinator::Actions& actions);
  void lose(TimePoint now, const Leases::Expired& expired, const std::string& why,
            coordinator::Actions& actions);
  void consider_sealing(TimePoint now, coordinator::Actions& actions);
  void consider_growing(TimePoint now, std::optional<LinkId> newcomer,
                        coordinator::Actions& actions);
  void seal(TimePoint now, coordinator::Actions& actions);
  // The job is elastic and enough nodes remain. The coordinator's own node is always needed.
  bool goes_on_without(const Member& member) const {
    return terms_.elastic() && !member.local &&
           round_.staying() > static_cast<std::size_t>(terms_.nodes_min);
  }
  void break_round(TimePoint now, const std::string& reason, coordinator::Actions& actions);
  void begin_draining(TimePoint now, const std::string& reason);
  OrderOutcome stop(TimePoint now, const Order& order, coordinator::Actions& actions);
  OrderOutcome restart(TimePoint now, const Order& order, coordinator::Actions& actions);
  OrderOutcome save(TimePoint now, const Order& order, coordinator::Actions& actions);
  // A preemption notice: the node will be taken away soon. All workers save while it is still
  // there.
  void noticed(TimePoint now, const Member& member, const std::string& notice,
               coordinator::Actions& actions);
  OrderOutcome drain(TimePoint now, const Order& order, coordinator::Actions& actions);
  OrderOutcome exclude(TimePoint now, const Order& order, coordinator::Actions& actions);
  OrderOutcome include(TimePoint now, const Order& order, coordinator::Actions& actions);
  std::vector<LinkId> nodes_of_host(const std::string& host) const;
  std::vector<LinkId> nodes_called(const std::string& whom) const;
  std::optional<OrderOutcome> objection_to_dismiss(const std::vector<LinkId>& links) const;
  void dismiss(TimePoint now, const std::vector<LinkId>& links, const std::string& why,
               coordinator::Actions& actions);
  void let_go(LinkId link, coordinator::Actions& actions);
  void leave_out(TimePoint now, const std::string& host, coordinator::Actions& actions);
  bool turn_away(TimePoint now, const Caller& caller, const link::Join& join,
                 coordinator::Actions& actions);
  RestartPolicy::Verdict judge(TimePoint now);
  void begin_again(TimePoint now, const RestartPolicy::Verdict& verdict,
                   coordinator::Actions& actions);
  void meet_again(TimePoint now, coordinator::Actions& actions);
  std::optional<link::Waiting> wait_for_seat(const link::Join& join) const;
  bool refuse_claimant(LinkId holder, coordinator::Actions& actions);
  // No round is sealed until it is known whether these nodes are alive.
  bool waits_for_links() const { return round_.away() > 0 || round_.claims() > 0; }
  bool may_rejoin(const Member& member) const;
  void settle(TimePoint now, coordinator::Actions& actions);
  void consider_lost_store(TimePoint now, coordinator::Actions& actions);
  void break_for_lost_store(TimePoint now, coordinator::Actions& actions);
  void end(link::Finish finish, TimePoint now, coordinator::Actions& actions);
  void forget_standby();
  void choose_standby(coordinator::Actions& actions);
  bool replace_standby(coordinator::Actions& actions);
  std::vector<LinkId> voters_left() const;
  bool may_appoint() const;
  void show_record_again(LinkId link, coordinator::Actions& actions) const;
  void stands(TimePoint now, LinkId link, const link::Stands& stands,
              coordinator::Actions& actions);
  void tell_standby(TimePoint now, LinkId link, coordinator::Actions& actions);
  void look_at_lead(TimePoint now, coordinator::Actions& actions);
  void look_at_record(TimePoint now);
  void see_lead(TimePoint now);
  void depose(TimePoint now, coordinator::Actions& actions);
  link::Drain drain_of_round(const Member& member) const;
  void tell_drain(coordinator::Actions& actions) const;
  void recall_votes(coordinator::Actions& actions);
  bool may_transfer_leadership(const Member& member, const link::Leave& leave) const;
  bool would_restart(TimePoint now);
  bool choose_successor();
  bool transfer_leadership(TimePoint now, coordinator::Actions& actions);
  void abort_transfer();
  void decline_transfer(TimePoint now, LinkId link, const link::Heartbeat& beat,
                        coordinator::Actions& actions);
  void stop_deciding(TimePoint now);
  void tell_spares(std::optional<LinkId> only, coordinator::Actions& actions);
  void tell_status(TimePoint now, coordinator::Actions& actions);

  // Scope guard for each change of a job: when it ends, the time accounting learns where all nodes
  // are.
  class TimeKept;
  void place_time(TimePoint now);
  void settle_time(TimePoint now);
  void close_time(TimePoint now);

  JobTerms terms_;
  JobOptions options_;
  Round round_;
  Leases leases_;
  Admission admission_;
  TimePoint sealed_at_{};               // of the last round
  std::optional<TimePoint> since_;      // of the current phase, for people
  RoundHistory history_;                // of all rounds, for people
  TimeAccounting time_;                 // of all nodes, for people
  RoundEnd round_end_;                  // of the round that runs or drains
  std::optional<link::Finish> finish_;  // set once: the job is over
  LastCall last_call_;                  // when it ends: seal, or break politely and grow
  RestartPolicy policy_;
  std::optional<TimePoint> pause_until_;  // before a restart, if a backoff is set
  std::string master_waits_;              // why the coordinator's own node has not joined yet
  std::string why_again_;                 // why the last round broke and another follows
  bool meets_again_ = false;              // the next round starts as soon as no link is broken
  std::optional<TimePoint> status_due_;   // set while a node waits
  std::optional<TimePoint> saves_at_;     // when the last requested save of this round is due
  Exclusions exclusions_;
  EvictedNodes evicted_nodes_;
  bool has_lost_its_store_ = false;
  // After recovery: since when the round had no coordinator, and whether a node kept its seat
  // meanwhile.
  std::optional<TimePoint> stalled_since_ = {};
  bool has_resumed_ = false;
  std::uint64_t steps_ = 0;
  std::optional<TimePoint> record_due_;  // a node has finished its part since the last record
  struct Standing {
    LinkId link;
    std::string address;  // at which the other nodes reach it
    int port = 0;         // 0: not reported yet
  };
  std::optional<Standing> standby_;  // of the round that runs or drains
  RoundVotes votes_;
  std::optional<TimePoint> leads_until_;
  std::optional<TimePoint> lead_look_due_;  // when to compute leads_until_ again
  bool is_deposed_ = false;
  bool recalls_votes_ = false;  // all nodes of the round were asked to give up their votes in it
  // The coordinator's own node is asked to end, and the standby is to lead: why, and the deadline.
  // The standby has been offered the job or, if it has no port yet, still has to become the
  // standby.
  std::optional<link::Leave> own_leave_;
  std::optional<TimePoint> transfer_until_;
  LinkId transfer_link_{};  // on which the job was offered to the standby
  std::optional<link::Led> transferred_to_;
  // Until when nodes are asked for worker stats, after a client has looked at the job.
  std::optional<TimePoint> watched_until_;
};

}  // namespace cpprun
