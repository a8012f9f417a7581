// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One job as its coordinator sees it (Job), and what of it outlives its coordinator (JobRecord).

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
#include "rendezvous/job/job_terms.h"
#include "rendezvous/job/leases.h"
#include "rendezvous/job/order.h"
#include "rendezvous/job/restart_policy.h"
#include "rendezvous/job/round.h"
#include "rendezvous/job/round_outcome.h"
#include "rendezvous/job/time_ledger.h"

namespace cpprun {

// What of a job outlives its coordinator: who had a seat, what was used of its restarts, and what
// people want to know of its past. Not what its store held: a job that goes on from here begins its
// round anew, on a store that is empty, and spends no restart for that.
//
// A record is made at each step of the round, and not for each word of a node: what a node says in
// a round it says again when its link comes back (Failed, Succeeded, Drained), and a spare asks for
// a seat again.
struct JobRecord {
  struct Node {
    link::Join join;  // as it was said first
    std::string peer;
    std::vector<std::string> further_peers = {};
    Member::State state = Member::State::waiting;
    std::optional<GroupRank> group_rank = {};  // in that round
    RankRange ranks = {};
    bool leaving = false;
    std::string dismissed = {};
    bool hosts = false;  // its cpprun is the coordinator, too
    friend bool operator==(const Node&, const Node&) = default;
  };

  std::string founder;  // the address whose node was the first
  std::string owner;    // whose secret that node held; empty: nobody's
  RoundNumber round{};  // the one that was sealed last
  Round::Phase phase = Round::Phase::gathering;
  int world_size = 0;
  // That have a seat in that round, or wait for the next. Where there are none there is nothing to
  // go on with.
  std::vector<Node> nodes;
  TimePoint sealed_at{};
  std::optional<TimePoint> since = {};  // of the phase, or of the end
  RestartState restarts = {};
  RoundEnd round_end = {};
  std::optional<TimePoint> pause_until = {};
  std::string why_again = {};
  // When the coordinator that wrote this record was alive last, as far as its successor knows. Not
  // part of the bytes.
  std::optional<TimePoint> alive = {};
  // How many votes a standby needs to go on with it; 0: there is none, or it is of an older version
  // of cpprun, and more than half of the nodes are needed.
  std::size_t votes_needed = 0;
  Duration patience{};  // that its nodes may have been told of; travels in milliseconds
  std::optional<link::Finish> finish = {};
  RoundHistory::Kept history = {};
  TimeLedger::Kept time = {};
  std::vector<Exclusions::Entry> exclusions = {};
  std::vector<Dismissals::Entry> dismissals = {};

  const std::string& job() const { return nodes.front().join.job; }
};

struct JobOptions {
  Duration lease{};            // silence after which a node is lost, as its nodes know it
  Duration patience{};         // and for so long its workers live on while another one may lead
  Duration status_interval{};  // between two lines that say who is missing
  Duration last_call{};        // elastic: how long more nodes are waited for once there are enough
  int store_port = 0;
  Duration wall_offset{};  // from this clock to the wall's, which is for people; zero: not known
  RestartState restarts_before = {};  // of the hosted job, where it was ended and goes on
  bool standby = false;  // of the hosted job: another node goes on with it where this one is lost
};

// Who is joining: the agent's numeric address, whether it runs in the coordinator's own process,
// and whose secret it has proven to hold.
struct Caller {
  LinkId link;
  std::string peer;
  bool local = false;
  std::string owner = {};  // empty: nobody's; all whose this is share their jobs
};

// One job as its coordinator sees it: who has a seat, what failed first, how many restarts are
// left, how it ended. A machine without sockets: it is told what agents say and what time it is,
// and appends what has to be done to a list (docs/states.md, "Coordinator").
//
//   gathering ──enough here──► sealed ──failure, loss, change, stop──► draining ──nobody left──┐
//       ▲                         │                                                            │
//       │                         └─everybody succeeded──► over ◄──no restart left, stopped────┤
//       └────────────────── a restart is left, or only the membership changed ─────────────────┘
//
// The rules that matter most:
//   - a round is sealed only when nobody of the one before is alive where it can be reached: two
//     workers with one rank never coexist;
//   - a failure is the job's, not the node's: one budget, one first cause, one exit code;
//   - a change of membership costs no restart. Fixed size: the round waits for a replacement, or a
//     spare takes the seat. Elastic: it goes on with the nodes left while they are at least MIN,
//     and lets newcomers in together, at the end of the last call.
class Job {
 public:
  Job(JobTerms terms, JobOptions options);
  // A job that another coordinator has had, which left that record (job_recovery.cpp). Its nodes
  // are not connected yet, and have the lease to come; `first` and the following are their links
  // until then. Whatever was sealed goes on if its store does, and is to begin anew if that is
  // gone.
  Job(TimePoint now, const JobRecord& record, JobOptions options, LinkId first,
      bool has_store = false);
  // After that: it was not to be had in the end.
  void lose_store(TimePoint now, coordinator::Actions& actions);
  // What the next coordinator has to know. `founder` and `owner` are not the job's business.
  JobRecord record() const;
  // Grows whenever that record is another; 0: there is nothing to be kept yet.
  std::uint64_t steps() const { return steps_; }
  // --- the node that goes on with it where this coordinator is lost (job_standby.cpp) ---
  // Who is to have that record, since that step.
  std::optional<LinkId> standby() const {
    return standby_ ? std::optional(standby_->link) : std::nullopt;
  }
  // Where the others meet it; nothing: nobody can go on.
  std::optional<link::Standby> standby_place() const;
  // Until when this coordinator may decide, as far as is known; nothing: without an end.
  std::optional<TimePoint> leads_until() const { return leads_until_; }
  // Who that is, and what follows if it is nobody: a sentence for people; empty where no round of
  // several nodes runs.
  std::optional<GroupRank> standby_node() const;
  std::string cover_text() const;
  // The same where a node hosts it and it is nobody: and why, and what helps; else empty.
  std::string exposure_text() const;
  // After it was recovered: that node had the coordinator that is lost.
  // `heard`: when its nodes heard that coordinator last; what they did since then was in vain.
  void lose_host(TimePoint now, TimePoint heard, LinkId link, coordinator::Actions& actions);
  // The same, and it has transferred leadership to this one.
  void succeed_host(TimePoint now, LinkId link, coordinator::Actions& actions);
  // This coordinator has transferred leadership to its standby, or tries to.
  bool transfers_leadership() const { return own_leave_.has_value(); }
  // Where nodes are sent that come here after that; nothing: it leads.
  const std::optional<link::Led>& transferred_to() const { return transferred_to_; }
  // Somebody else leads it, as its nodes are told; false: it runs here, or is over.
  bool step_aside(TimePoint now, const link::Led& led, coordinator::Actions& actions);
  // This coordinator may not decide: another one leads, or may.
  bool is_deposed() const { return is_deposed_; }
  // After it was deposed, a node of its round asks it for a seat: that node has no vote in the
  // round from now on. True: no standby can have a majority, so this coordinator may lead_again().
  bool takes_back_vote(const Caller& caller, const link::Join& join);
  // It leads again, and its round drains: those who may have workers have a lease to come back.
  void lead_again(TimePoint now, coordinator::Actions& actions);

  // Its round runs, but the store it began with went with another coordinator.
  bool has_lost_its_store() const { return has_lost_its_store_; }
  // That node has a seat in a round that runs on.
  bool keeps_round_of(LinkId link) const;

  const JobTerms& terms() const { return terms_; }
  const Round& round() const { return round_; }
  bool over() const { return finish_.has_value(); }

  // For whoever looks at it (rendezvous/status).
  const std::optional<link::Finish>& finish() const { return finish_; }
  // Silence after which a node is lost.
  Duration lease() const { return options_.lease + options_.patience; }
  const Leases& leases() const { return leases_; }
  const RestartPolicy& policy() const { return policy_; }
  const RoundEnd& round_end() const { return round_end_; }
  const RoundHistory& history() const { return history_; }
  const TimeLedger& time() const { return time_; }
  bool pauses() const { return pause_until_.has_value(); }
  // When the round came into its phase, or the job to its end; nothing: nobody has come yet.
  std::optional<TimePoint> since() const { return since_; }
  // What everybody waits for, in a sentence; empty where workers run, or the job is over.
  std::string waits_for(TimePoint now) const;

  // Somebody looks: for a while nodes are asked what their workers do, each when it is heard next.
  void look(TimePoint now, coordinator::Actions& actions);

  // Whether store clients from that numeric address belong to the round that runs, or drains: who
  // was asked to end may open a connection to save what it has.
  Result<void> admit(const std::string& peer) const {
    if (round_.phase() == Round::Phase::gathering || over()) return failure("no round is running");
    if (has_lost_its_store_ || is_deposed_) return failure("the store of its round is gone");
    return admission_.check(peer);
  }

  // None of its nodes is connected: since when, and how long they may compute all the same.
  struct Unattended {
    TimePoint since;
    TimePoint until;
  };
  std::optional<Unattended> unattended() const;

  // Why the coordinator's own node is not here yet, for those who wait for it.
  void master_waits(std::string why) { master_waits_ = std::move(why); }
  void join(TimePoint now, const Caller& caller, const link::Join& join,
            coordinator::Actions& actions);
  void hear(TimePoint now, LinkId link, const link::Message& message,
            coordinator::Actions& actions);
  // That agent speaks from that address as well, so its workers are admitted from there. False: no
  // such agent here.
  bool speaks_from(const link::WhoHosts& agent, const std::string& peer);
  struct Closing {
    LinkId link;
    std::string reason;
    bool broken = false;  // neither side closed it: its agent may come back
  };
  void close(TimePoint now, const Closing& closing, coordinator::Actions& actions);
  // What an operator asks; done here, or refused with a sentence. Not `forget`, which is its
  // owner's.
  OrderOutcome order(TimePoint now, const Order& order, coordinator::Actions& actions);
  // The hosts that are excluded wherever this job is; before anybody joins.
  void exclude_as(const Exclusions& exclusions) { exclusions_ = exclusions; }
  // Why no node of that host can be asked to leave; nothing: all can, or there is none.
  std::optional<OrderOutcome> objection_to_exclude(const std::string& host) const;
  void advance(TimePoint now, coordinator::Actions& actions);
  // A worker of the round that runs has spoken to its store: from here on it trains.
  void store_asked(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  // The invariant that is broken, if one is.
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
  // Elastic, and enough are left; but nobody goes on without the coordinator's own host.
  bool goes_on_without(const Member& member) const {
    return terms_.elastic() && !member.local &&
           round_.staying() > static_cast<std::size_t>(terms_.nodes_min);
  }
  void break_round(TimePoint now, const std::string& reason, coordinator::Actions& actions);
  void begin_draining(TimePoint now, const std::string& reason);
  OrderOutcome stop(TimePoint now, const Order& order, coordinator::Actions& actions);
  OrderOutcome restart(TimePoint now, const Order& order, coordinator::Actions& actions);
  OrderOutcome save(TimePoint now, const Order& order, coordinator::Actions& actions);
  // A node will be taken away soon: all save while it is still there.
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
  // No round is sealed until it is known whether these are there.
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

  // While something is done to a job; at its end the ledger hears where all nodes are now.
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
  std::optional<TimePoint> since_;      // of the present phase, for people
  RoundHistory history_;                // of all rounds, for people
  TimeLedger time_;                     // of all nodes, for people
  RoundEnd round_end_;                  // of the round that runs or drains
  std::optional<link::Finish> finish_;  // set once: the job is over
  LastCall last_call_;                  // when it is over: seal, or break politely and grow
  RestartPolicy policy_;
  std::optional<TimePoint> pause_until_;  // before a restart, where one was asked for
  std::string master_waits_;              // why the coordinator's own node is not here yet
  std::string why_again_;                 // the last round broke, and another follows
  bool meets_again_ = false;              // the next one begins as soon as no link is broken
  std::optional<TimePoint> status_due_;   // set while somebody waits
  std::optional<TimePoint> saves_at_;     // the workers of this round were last asked to save
  Exclusions exclusions_;
  Dismissals dismissals_;
  bool has_lost_its_store_ = false;
  // After a recovery: since then its round had no coordinator; and a node kept its seat meanwhile.
  std::optional<TimePoint> stalled_since_ = {};
  bool has_resumed_ = false;
  std::uint64_t steps_ = 0;
  std::optional<TimePoint> record_due_;  // somebody has done its part since the last one
  struct Standing {
    LinkId link;
    std::string address;  // at which others meet it
    int port = 0;         // 0: it has not said yet
  };
  std::optional<Standing> standby_;  // of the round that runs or drains
  Leadership leadership_;
  std::optional<TimePoint> leads_until_;
  std::optional<TimePoint> lead_look_due_;  // when that is found out again
  bool is_deposed_ = false;
  bool recalls_votes_ = false;  // all nodes of the round are asked to give up their votes in it
  // The node of this coordinator is asked to end, and the standby is to lead: why, and until when
  // it has time to. The standby has been offered the job, or, without a port, is yet to become it.
  std::optional<link::Leave> own_leave_;
  std::optional<TimePoint> transfer_until_;
  LinkId transfer_link_{};  // on which it was offered to the standby
  std::optional<link::Led> transferred_to_;
  // Somebody has looked; until then nodes are asked for figures.
  std::optional<TimePoint> watched_until_;
};

// What a job says in words of its own, to the nodes that wait and of those that no longer speak.

// Stands in for the words of a node that says nothing any more.
link::Failure failure_of_lost(const Member& member, Duration lease, WallTime time = {});

coordinator::NodeChange change_of(const Member& member, coordinator::NodeChange::Kind kind,
                                  std::string reason = {});

// Why a job waits, as far as its round does not know.
struct Waits {
  std::string reason;                      // why the last round broke
  std::string master = {};                 // why the coordinator's own node does not come
  std::optional<Duration> pause = {};      // that is left before a restart
  std::optional<Duration> last_call = {};  // that is left for more nodes to come
};

// Another node takes itself for the master of our job.
std::string second_master_text(const link::WhoHosts& other, const std::string& peer);

// Whose address it is that a worker could not connect to: "… cannot connect to 10.0.0.6 (beta); …".
std::string with_host_of_address(std::string message, const Round& round);

// "job \"train\"", or "the job" where it has the id that torchrun gives to jobs without one,
// "none".
std::string quoted_job(const std::string& id);

// What is being waited for: a pause, the workers' ends, or more nodes.
std::string status_of(const Round& round, const JobTerms& terms, const Waits& waits);

}  // namespace cpprun
