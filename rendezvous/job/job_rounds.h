// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The rounds of a job, one after the other (JobRounds).

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "rendezvous/job/coordinator_actions.h"
#include "rendezvous/job/job_leadership.h"
#include "rendezvous/job/job_nodes.h"
#include "rendezvous/job/job_record.h"
#include "rendezvous/job/job_terms.h"
#include "rendezvous/job/restart_policy.h"
#include "rendezvous/job/round.h"
#include "rendezvous/job/round_outcome.h"
#include "rendezvous/job/time_accounting.h"

namespace cpprun {

// The rounds of a job, one after the other: when a round is sealed, why it breaks, whether another
// follows, and how the job ends. Owns what is known of the rounds (the end of the current one, the
// restarts that are left, the history, the accounts of time) and what the next one waits for. The
// nodes are its argument: it gives them seats, and removes those that leave.
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
class JobRounds {
 public:
  using Actions = coordinator::Actions;

  JobRounds(JobTerms terms, JobOptions options);
  // Resumes from the record that another coordinator left. A sealed round continues if its store
  // does (`has_store`), and must be restarted if the store is lost.
  JobRounds(TimePoint now, const JobRecord& record, JobOptions options, const Round& round,
            bool has_store);
  void keep(JobRecord& record) const;

  const JobTerms& terms() const { return terms_; }
  const JobOptions& options() const { return options_; }
  const JobLeadership& leadership() const { return leadership_; }
  const RestartPolicy& policy() const { return policy_; }
  const RoundEnd& round_end() const { return round_end_; }
  const RoundHistory& history() const { return history_; }
  const TimeAccounting& time() const { return time_; }
  const std::optional<link::Finish>& finish() const { return finish_; }
  bool over() const { return finish_.has_value(); }
  bool pauses() const { return pause_until_.has_value(); }
  // The running round's store was lost with another coordinator.
  bool has_lost_its_store() const { return has_lost_its_store_; }
  TimePoint sealed_at() const { return sealed_at_; }  // of the last round
  // When the current phase started, or the job ended; nothing if no node has joined yet.
  std::optional<TimePoint> since() const { return since_; }
  // Grows whenever the record changes. 0: there is nothing to keep yet.
  std::uint64_t steps() const { return steps_; }
  void record_changed() {
    if (steps_ > 0) ++steps_;
  }
  // What the nodes wait for, as a sentence; empty while workers run, or after the end.
  std::string waits_for(TimePoint now, const Round& round) const;
  // Why the coordinator's own node has not joined yet. Shown to the nodes that wait for it.
  void master_waits(std::string why) { master_waits_ = std::move(why); }

  // --- the nodes' messages about the current round, while the job is not over

  void failed(TimePoint now, LinkId link, link::Failed failed, JobNodes& nodes, Actions& actions);
  void succeeded(TimePoint now, LinkId link, JobNodes& nodes, Actions& actions);
  void drained(TimePoint now, LinkId link, const link::Drained& drained, JobNodes& nodes,
               Actions& actions);
  void leave(TimePoint now, LinkId link, const link::Leave& leave, JobNodes& nodes,
             Actions& actions);
  void stands(TimePoint now, LinkId link, const link::Stands& stands, JobNodes& nodes,
              Actions& actions);
  // The heartbeat says which reply the node has received.
  void heard(TimePoint now, LinkId link, const link::Heartbeat& beat, JobNodes& nodes,
             Actions& actions);

  // --- nodes that come and go

  void joined(TimePoint now, LinkId link, JobNodes& nodes, Actions& actions);
  // The node is back on a newer link. Sends it what it may have missed. Then one of the next three
  // is to be called.
  void resumed(TimePoint now, LinkId old_link, LinkId link, const link::Join& join, JobNodes& nodes,
               Actions& actions);
  // It knows the round that runs or drains.
  void resumed_in_round(TimePoint now, LinkId link, const link::Join& join, JobNodes& nodes,
                        Actions& actions);
  // It missed the message that gives it its seat.
  void resumed_with_seat(TimePoint now, LinkId link, link::Sealed seat, JobNodes& nodes,
                         Actions& actions);
  // It has ended its workers and given up its seat, or may have: none of its workers is alive, and
  // it waits for the next round.
  void resumed_without_seat(TimePoint now, LinkId link, const link::Join& join, JobNodes& nodes,
                            Actions& actions);
  // The node, which is removed already, was last heard at `at`. If it had workers, they are lost.
  void lost(TimePoint now, const Member& member, TimePoint at, JobNodes& nodes, Actions& actions);
  // Removes a node that leaves once none of the round's workers is alive there. The node is
  // informed unless it left on its own.
  void let_go(LinkId link, JobNodes& nodes, Actions& actions);

  // --- what follows from a change

  // Checks whether the round has ended, and starts what follows.
  void update_phase(TimePoint now, JobNodes& nodes, Actions& actions);
  // Gathering: seals the round if all nodes are present, or enough are and the last call has ended.
  void consider_sealing(TimePoint now, JobNodes& nodes, Actions& actions);
  // A round without its store continues only until it is known which nodes are present. If nodes
  // have finished their part, it continues if it can, because their work would have to be repeated.
  void consider_lost_store(TimePoint now, JobNodes& nodes, Actions& actions);
  void set_lost_store(bool is_lost) { has_lost_its_store_ = is_lost; }
  // Sealed: the membership changes. Nothing has failed, so no restart is used.
  void break_politely(TimePoint now, const std::string& reason, JobNodes& nodes, Actions& actions,
                      bool is_ordered = false);
  // Stops the job, which update_phase() then ends.
  void stop(TimePoint now, const std::string& why, JobNodes& nodes, Actions& actions);
  void end(link::Finish finish, TimePoint now, JobNodes& nodes, Actions& actions);
  // Why these nodes cannot be asked to leave; nothing if they can.
  std::optional<std::string> objection_to_evict(const std::vector<LinkId>& links,
                                                const JobNodes& nodes) const;

  // --- leadership

  // Another coordinator leads the job: stops deciding and redirects the nodes. Returns false, and
  // does nothing, if the job runs here or is over.
  bool step_aside(TimePoint now, const link::Led& led, JobNodes& nodes, Actions& actions);
  // A deposed coordinator may lead again: no standby can have a majority without this node.
  bool takes_back_vote(LinkId link, const link::Join& join, const Round& round) {
    return !over() && leadership_.takes_back_vote(link, join, round.number());
  }
  // Stops deciding if too few nodes answer.
  void check_lease(TimePoint now, JobNodes& nodes, Actions& actions);
  // Resumes leadership. The round drains; nodes that may have workers have one lease to reconnect.
  void lead_again(TimePoint now, JobNodes& nodes, Actions& actions);

  // --- time

  // Ends what has taken too long about leadership.
  void advance_leadership(TimePoint now, JobNodes& nodes, Actions& actions);
  void advance(TimePoint now, JobNodes& nodes, Actions& actions);
  std::optional<TimePoint> next_deadline(const JobNodes& nodes) const;
  // A worker of the running round has used its store: from now on its time counts as training.
  void store_asked(TimePoint now, const Round& round);
  // The store of the running round has keys of a process group of PyTorch: its workers depend on
  // each other, so none of them is restarted alone.
  void found_process_group(const Round& round, Actions& actions);
  // To be called after each change: the time accounting learns where all nodes are.
  void place_time(TimePoint now, const Round& round);
  // The violated invariant, if any.
  std::optional<std::string> check(const JobNodes& nodes) const;

 private:
  // The job is elastic and enough nodes remain. The coordinator's own node is always needed.
  bool goes_on_without(const Member& member, const Round& round) const {
    return terms_.elastic() && !member.local &&
           round.staying() > static_cast<std::size_t>(terms_.nodes_min);
  }
  bool restarts_alone(TimePoint now, LinkId link, const link::Failed& failed, TimePoint at,
                      const Round& round, Actions& actions);
  void break_for_stopped_node(TimePoint now, LinkId link, JobNodes& nodes, Actions& actions);
  TimePoint started_at(Rank rank) const;
  void seal(TimePoint now, JobNodes& nodes, Actions& actions);
  void say_seat(LinkId link, link::Sealed sealed, const Round& round, Actions& actions) const;
  void consider_growing(TimePoint now, std::optional<LinkId> newcomer, JobNodes& nodes,
                        Actions& actions);
  void break_round(TimePoint now, const std::string& reason, JobNodes& nodes, Actions& actions);
  void begin_draining(TimePoint now, const std::string& reason, Round& round);
  RestartPolicy::Verdict judge(TimePoint now, const Round& round);
  bool would_restart(TimePoint now, const Round& round);
  void prepare_next_round(TimePoint now, const RestartPolicy::Verdict& verdict, JobNodes& nodes,
                          Actions& actions);
  void start_next_round(TimePoint now, JobNodes& nodes, Actions& actions);
  void exclude_failing_host(TimePoint now, const std::string& host, JobNodes& nodes,
                            Actions& actions);
  void break_for_lost_store(TimePoint now, JobNodes& nodes, Actions& actions);
  void send_spares(std::optional<LinkId> only, const Round& round, Actions& actions) const;
  void send_status(TimePoint now, const Round& round, Actions& actions);
  bool transfer_leadership(TimePoint now, const Round& round, Actions& actions);
  void abort_transfer();
  void depose(TimePoint now, JobNodes& nodes, Actions& actions);
  void stop_deciding(TimePoint now, Round& round);
  void close_time(TimePoint now, const Round& round);

  JobTerms terms_;
  JobOptions options_;
  JobLeadership leadership_;
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
  bool next_round_is_due_ = false;        // it starts as soon as no link is broken
  std::optional<TimePoint> status_due_;   // set while a node waits
  bool has_lost_its_store_ = false;
  std::map<Rank, RestartedWorker> restarted_workers_;  // in the running round
  bool has_process_group_ = false;                     // with RestartScope::worker
  std::uint64_t steps_ = 0;
  std::optional<TimePoint> record_due_;  // a node has finished its part since the last record
};

}  // namespace cpprun
