// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One machine's membership in a job, from the first connection attempt to the exit code.
//
//   dialing    No link to the coordinator yet. Dials with growing pauses until join_timeout.
//   joining    Has asked to join. Receives periodic updates on which nodes are missing, until
//              join_timeout.
//   running    The round is sealed; a Supervisor owns this node's workers.
//   succeeded  All workers exited with 0. Peers may run on for hours; nothing runs here.
//   drained    No worker of the round is alive here, and the coordinator knows. A new round or the
//              end of the job follows.
//   over       Has emitted Exit. Ignores every later event.
//
// In running, succeeded and drained the link may break. The agent redials and resumes it, and the
// workers never notice. The agent gives up when the coordinator has not replied for the lease, or
// when this process was stopped for that long. A node that has succeeded can do no harm; it keeps
// asking how the job ended, for join_timeout at most. Any other node kills its workers at once: the
// coordinator reassigns its ranks at that moment, and two workers with one rank would corrupt the
// job. The node then dials again as a newcomer if the job is elastic or has restarts left.
// Otherwise it is over.
//
// If the lease expires while no process of this node runs, as on a suspended machine, not even the
// watchdog notices. But then the workers computed nothing meanwhile, and silence proves nothing.
// The agent pauses the workers and asks the coordinator. Either this node still holds its seat and
// the workers resume, or they are stopped after one more lease at the latest.
//
// The coordinator makes the decisions. The only decision an agent makes alone is to give up.

#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent_actions.h"
#include "launcher/agent/agent_past.h"
#include "launcher/agent/agent_text.h"
#include "launcher/agent/coordinator_link.h"
#include "launcher/agent/failover.h"
#include "launcher/agent/local_workers.h"
#include "launcher/agent/misconfiguration.h"
#include "launcher/plan/meeting_place.h"
#include "launcher/plan/plan.h"
#include "proto/clock.h"
#include "proto/state_machine.h"

namespace cpprun {

class Agent {
 public:
  using Event = agent::Event;
  using Action = agent::Action;
  using Actions = std::vector<Action>;

  Agent(Config config, AgentFacts facts);

  // Called once, before any event.
  Actions start(TimePoint now);
  Actions handle(TimePoint now, const Event& event);
  Actions advance(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  // The fence: the deadline by which the watchdog must kill our workers if this process has not,
  // because other nodes may then hold their ranks. None if there is no seat to lose, or no other
  // node could take it.
  std::optional<TimePoint> overdue_at() const;
  // Returns the broken invariant, if any.
  std::optional<std::string> check() const;

 private:
  friend class AgentSuccession;

  enum class Phase { dialing, joining, running, succeeded, drained, over };
  static constexpr PhaseStep<Phase> steps[] = {
      {Phase::dialing, Phase::joining},    // the link is up
      {Phase::joining, Phase::dialing},    // it broke
      {Phase::joining, Phase::running},    // the round is sealed
      {Phase::running, Phase::succeeded},  // every worker ended with 0
      {Phase::running, Phase::drained},    // no worker left, on request or after a failure
      {Phase::running, Phase::dialing},    // the seat was lost, and no worker is left
      {Phase::succeeded, Phase::drained},  // the round breaks
      {Phase::succeeded, Phase::running},  // the round continued; this node has rejoined
      {Phase::drained, Phase::running},    // the next round
      {Phase::drained, Phase::dialing},    // the seat was lost
      {Phase::dialing, Phase::over},       // can end at any time
      {Phase::joining, Phase::over},      {Phase::running, Phase::over},
      {Phase::succeeded, Phase::over},    {Phase::drained, Phase::over}};

  void on(TimePoint now, const agent::LinkUp& event, Actions& actions);
  void on(TimePoint now, const agent::LinkDown& event, Actions& actions);
  void on(TimePoint now, const agent::Heard& event, Actions& actions);
  bool holds_back(TimePoint now, const link::Message& message, Actions& actions);
  void hear(TimePoint now, const link::Message& message, Actions& actions) {
    remember(now, message);
    std::visit([&](const auto& each) { take(now, each, actions); }, message);
  }
  // For another agent in this process that continues.
  void remember(TimePoint now, const link::Message& message) {
    if (const auto* const members = std::get_if<link::Members>(&message)) past_.members = *members;
    if (const auto* const standby = std::get_if<link::Standby>(&message)) past_.standby = *standby;
    if (std::holds_alternative<link::Sealed>(message) && phase_ != Phase::running) {
      past_.sealed_at = now;
    }
  }
  void on(TimePoint now, const agent::Answered& event, Actions& actions);
  void on(TimePoint now, const agent::FromWorker& event, Actions& actions);
  void on(TimePoint now, const agent::Examined& event, Actions& actions);
  void on(TimePoint now, const agent::WorldSeen& event, Actions& actions) {
    if (phase_ == Phase::running) checks_.seen(now, event.look, actions);
  }
  void on(TimePoint now, const agent::WorkersSeen& event, Actions& actions);
  void on(TimePoint now, const agent::ProgressSeen& event, Actions& actions);
  void on(TimePoint now, const agent::TimeoutSeen&, Actions& actions) {
    if (phase_ == Phase::running && !stopped_by_ && workers_.timed_out(now)) {
      tell_quiet(now, actions);
    }
  }
  void on(TimePoint now, const agent::LastLinesRead& event, Actions& actions) {
    if (event.show_timeout) on(now, agent::TimeoutSeen{}, actions);
    workers_.last_lines_read(now, actions);
  }
  void on(TimePoint now, const agent::WorkersObserved& event, Actions& actions);
  void on(TimePoint now, const agent::Signalled& event, Actions& actions);
  void on(TimePoint now, const agent::Noticed& event, Actions& actions);

  void on(TimePoint now, const agent::StandsBy& event, Actions& actions);
  void on(TimePoint now, const agent::Leads& event, Actions& actions);
  void on(TimePoint, const agent::LeadsUntil& event, Actions&) { leads_until_ = event.until; }
  void on(TimePoint now, const agent::Fenced& event, Actions& actions);
  void on(TimePoint, const agent::UpgradeEnded& event, Actions& actions) {
    say(event.told, actions);
  }

  // Messages of the coordinator.
  void take(TimePoint now, const link::Waiting& message, Actions& actions);
  void take(TimePoint now, const link::Refused& message, Actions& actions);
  void take(TimePoint now, const link::Sealed& message, Actions& actions);
  void take(TimePoint now, const link::Drain& message, Actions& actions);
  void take(TimePoint now, const link::Finish& message, Actions& actions);
  void take(TimePoint now, const link::Save& message, Actions& actions);
  void take(TimePoint now, const link::Capture& capture, Actions& actions) {
    if (phase_ == Phase::running) workers_.capture(now, capture, actions);
  }
  void take(TimePoint now, const link::Verdict& verdict, Actions& actions) {
    // That of a timeout ends no worker, and may come when the round has ended.
    const bool may_end_worker = phase_ == Phase::running && !drain_asked_;
    if (verdict.is_timeout ? in_round() : may_end_worker) {
      workers_.judged(now, verdict, *sealed_, actions);
    }
  }
  // The reply to a Failed, which need not be said again.
  void take(TimePoint now, const link::RestartWorker& message, Actions& actions) {
    const int local = sealed_ ? message.rank.value - sealed_->base_rank.value : -1;
    if (phase_ != Phase::running || message.round != sealed_->round || drain_asked_) return;
    if (stopped_by_ || local < 0 || local >= config_.local_world_size) return;
    std::erase_if(said_in_round_, [&message](const link::Message& said) {
      const auto* const failed = std::get_if<link::Failed>(&said);
      return failed != nullptr && failed->failure.rank == message.rank &&
             failed->attempt < message.attempt;
    });
    link::Sealed seat = *sealed_;
    seat.restart_count = message.restart_count;
    std::vector<WorkerSpec> specs = make_plan(config_, seat, facts_.program, facts_.node);
    workers_.restart(now, message, specs[static_cast<std::size_t>(local)], actions);
  }
  void take(TimePoint, const link::Upgrade& message, Actions& actions) {
    actions.emplace_back(agent::Upgrade{message.number});
  }
  void take(TimePoint now, const link::Dismissed& message, Actions& actions);
  void take(TimePoint now, const link::Record& message, Actions& actions);
  void take(TimePoint now, const link::Standby& message, Actions& actions);
  void take(TimePoint, const link::NotLeading& message, Actions&) {
    waiting_for_ = message.reason;
    standby_.not_leading();
  }
  void take(TimePoint now, const link::Led& message, Actions& actions);
  void take(TimePoint now, const link::Members& message, Actions& actions);
  void take(TimePoint now, const link::Heartbeat& message, Actions& actions);
  template <class Message>
  void take(TimePoint now, const Message&, Actions& actions) {
    break_link(now, "the master sent a message that only agents send", actions);
  }

  // The coordinator is of a version that would restart all workers: the job must not run.
  bool lacks_worker_restarts(const link::Sealed& sealed, Actions& actions) {
    if (config_.restarts.scope == RestartScope::job || sealed.restarts_workers) return false;
    const std::string reason = no_worker_restarts_text(where_the_master_is());
    say(link::Leave{.signal = 0, .reason = reason}, actions);
    exit({.exit_code = 1, .reason = reason}, actions);
    return true;
  }
  // Stops the workers first, if any run.
  void end_job(events::JobEnded last, TimePoint now, Actions& actions);
  bool is_worth_hearing(TimePoint now, const link::Message& message, Actions& actions);
  void speak_for_workers(const link::Message& heard, Actions& actions);
  void dial(TimePoint now, Actions& actions);
  void check_link(TimePoint now, Actions& actions);
  void hang_up(TimePoint now, const std::string& reason, Actions& actions);
  void break_link(TimePoint now, const std::string& reason, Actions& actions);
  void link_down(TimePoint now, const agent::LinkDown& event, bool fell_silent);
  void link_lost(TimePoint now, bool fell_silent = false);
  // A coordinator hosted by a node has a standby that nodes vote for.
  bool may_turn() const { return !link_.local() && !standby_.in_use(); }
  bool turns() const { return may_turn() && cluster_.places().several(); }
  void led_here();
  void follow(TimePoint now, Actions& actions);
  void turn_to(TimePoint now, const Endpoint& master, Actions& actions);
  void step_down(TimePoint now, Actions& actions);
  bool looks_for_masters() const { return facts_.hosts_coordinator && !former_masters_.empty(); }
  void look_for_old_masters(TimePoint now, Actions& actions);
  std::optional<TimePoint> own_lead_ends_at() const;
  std::optional<TimePoint> stands_at() const;
  void stand_if_due(TimePoint now, Actions& actions);
  link::Join own_join(TimePoint now, RoundNumber vote) const {
    return join_message(config_, facts_, {.sent = link_.heartbeat(now).sent, .vote = vote});
  }

  bool has_a_seat_to_lose() const;
  bool fence_if_late(TimePoint now, Actions& actions);
  bool may_doubt_seat(TimePoint now) const;
  void doubt_seat(TimePoint now, Duration asleep, Actions& actions);
  void trust_seat_if_answered(TimePoint now, Actions& actions);
  void consider_voting();
  void lease_expired(TimePoint now, bool slept, Actions& actions);
  void lose_seat(TimePoint now, const std::string& why, Actions& actions);
  bool may_save_alone() const;
  TimePoint saves_until() const { return *refused_at_ + config_.lease() - link_.margin(); }
  void end_saving(TimePoint now, Actions& actions);
  bool asks_how_it_ended() const {
    return phase_ == Phase::succeeded && !link_.local() && !seat_deadline_;
  }
  void ask_how_it_ended(TimePoint now, Actions& actions);
  void leave_round();
  void rejoin(TimePoint now, Actions& actions);
  void wait_for_a_seat(TimePoint now, Phase phase);
  bool reads_first(TimePoint now);
  void give_up_if_due(TimePoint now, Actions& actions);

  void conclude_if_gone(TimePoint now, Actions& actions);
  link::Drained drained() const {
    link::Drained drained = workers_.drained();
    drained.asked = standby_.is_vote_released();
    return drained;
  }
  void tell_quiet(TimePoint now, Actions& actions);
  void tell_status_if_due(TimePoint now, Actions& actions);
  void tell_waiting(TimePoint now, Actions& actions);

  void say(link::Message message, Actions& actions);
  void exit(events::JobEnded last, Actions& actions);
  void exit_by_signal(Actions& actions);
  void forward(TimePoint now, int signal, Actions& actions);
  void show_stacks(TimePoint now, const agent::WorkersObserved& event, Actions& actions);
  link::Heartbeat heartbeat(TimePoint now);
  bool in_round() const {
    return phase_ == Phase::running || phase_ == Phase::succeeded || phase_ == Phase::drained;
  }
  std::string gone_text(TimePoint now) const;
  std::string where_the_master_is() const;
  std::string whose_word_is_missing() const;

  Config config_;
  AgentFacts facts_;
  PhaseOf<Phase> phase_{Phase::dialing, steps};
  CoordinatorLink link_;
  ClusterFailover cluster_;
  StandbyFailover standby_;
  FormerMasters former_masters_;
  LocalWorkers workers_;
  SetupChecks checks_;

  // --- while waiting for a seat
  std::string waiting_for_;  // text of the next status line
  std::optional<TimePoint> status_due_;
  // Set while dialing, joining or drained, and in succeeded while the coordinator does not reply.
  std::optional<TimePoint> seat_deadline_;
  bool has_read_first_ = false;  // deadline passed while suspended: read pending messages first

  // --- the round
  std::optional<link::Sealed> sealed_;  // current or last round of this node
  bool has_had_seat_ = false;           // in any round, even if lost since
  // Messages sent in the current round; sent again when a link resumes.
  std::vector<link::Message> said_in_round_;
  std::optional<link::Failed> left_;  // failure to report if the other nodes missed it
  bool drain_asked_ = false;          // by the coordinator, in the current round
  bool job_ends_ = false;             // the coordinator announced that no round follows

  // --- the seat
  std::optional<std::string> seat_lost_;  // reason; set until no worker of the round is alive here
  bool saves_alone_ = false;              // workers are stopping and saving without a master
  std::optional<TimePoint> refused_at_;   // last attempt: connection refused
  bool fell_silent_ = false;              // the last link was given up because it fell silent
  bool speaks_for_workers_ = false;       // on this link
  bool is_deposed_ = false;               // this node hosts the coordinator, which lost leadership
  std::optional<TimePoint> leads_until_;  // see agent::LeadsUntil
  // The first is a seal; see holds_back(). A few follow a seal; with more, the link is broken.
  static constexpr std::size_t held_back_max = 64;
  std::vector<link::Message> held_back_;

  AgentPast past_;  // what was received; see AgentSuccession

  // --- requests to stop
  // SIGQUIT, which stops the job once the stacks of the workers have been shown.
  std::optional<agent::Signalled> awaits_stacks_;
  std::optional<int> stopped_by_;  // the first stop signal received
  std::string stop_reason_;        // for stopped_by_
  bool insisted_ = false;          // another one followed
  std::string notice_;             // preemption notice not yet sent to the coordinator
};

static_assert(StateMachine<Agent>);

}  // namespace cpprun
