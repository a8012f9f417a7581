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
#include "launcher/agent/agent_messages.h"
#include "launcher/agent/coordinator_link.h"
#include "launcher/agent/misconfiguration.h"
#include "launcher/failure/diagnosis.h"
#include "launcher/plan/meeting_place.h"
#include "launcher/plan/plan.h"
#include "launcher/workers/supervisor.h"
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
  // Send `signal` to the workers at `at`.
  struct Saving {
    int signal = 0;
    TimePoint at{};
  };
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
  void on(TimePoint now, const agent::Answered& event, Actions& actions);
  void on(TimePoint now, const agent::FromWorker& event, Actions& actions);
  void on(TimePoint now, const agent::Examined& event, Actions& actions);
  void on(TimePoint now, const agent::WorldSeen& event, Actions& actions);
  void on(TimePoint now, const agent::WorkersSeen& event, Actions& actions);
  void on(TimePoint now, const agent::Signalled& event, Actions& actions);
  void on(TimePoint now, const agent::Noticed& event, Actions& actions);

  void on(TimePoint now, const agent::StandsBy& event, Actions& actions);
  void on(TimePoint now, const agent::Leads& event, Actions& actions);
  void on(TimePoint now, const agent::LeadsUntil& event, Actions& actions);
  void on(TimePoint now, const agent::Fenced& event, Actions& actions);

  void record(const link::Record& record, Actions& actions);
  void standby(TimePoint now, const link::Standby& standby, Actions& actions);
  void not_leading(const link::NotLeading& answer);
  bool may_turn() const;
  bool turns() const;
  void dial_next(TimePoint now, Actions& actions);
  bool is_worth_hearing(TimePoint now, const link::Message& message, Actions& actions);
  void speak_for_workers(const link::Message& heard, Actions& actions);
  void led_here();
  void members(TimePoint now, const link::Members& members, Actions& actions);
  void follow_no_more(TimePoint now, std::uint64_t epoch, Actions& actions);
  void learn_places(const std::vector<std::string>& told, Actions& actions);
  void ask_elsewhere(TimePoint now, const link::NotLeading& answer, Actions& actions);
  void link_lost(TimePoint now, bool fell_silent = false);
  void link_down(TimePoint now, const agent::LinkDown& event, bool fell_silent);
  void led(TimePoint now, const link::Led& led, Actions& actions);
  void give_up_drained_seat();
  void turn_to(TimePoint now, const Endpoint& master, Actions& actions);
  bool looks_for_masters() const;
  void look_for_old_masters(TimePoint now, Actions& actions);
  void ask_standby_again(TimePoint now);
  void sealed(TimePoint now, const link::Sealed& sealed, Actions& actions);
  void drain(TimePoint now, const link::Drain& drain, Actions& actions);
  void finish(TimePoint now, const link::Finish& finish, Actions& actions);
  void save(TimePoint now, const link::Save& save);
  void save_if_due(TimePoint now, Actions& actions);
  void forward(TimePoint now, int signal, Actions& actions);
  void dismissed(const link::Dismissed& dismissed, Actions& actions);
  void refused(TimePoint now, const std::string& why, Actions& actions);
  void answered(TimePoint now, const link::Heartbeat& heartbeat, Actions& actions);
  bool has_a_seat_to_lose() const;
  bool fence_if_late(TimePoint now, Actions& actions);
  bool may_doubt_seat(TimePoint now) const;
  void doubt_seat(TimePoint now, Duration asleep, Actions& actions);
  void trust_seat_if_answered(TimePoint now, Actions& actions);
  void unpause_workers(TimePoint now, Actions& actions);
  // The supervisor's clock: excludes the time this node was suspended.
  TimePoint worker_time(TimePoint now) const { return now - asleep_; }
  bool asks_how_it_ended() const;
  void ask_how_it_ended(TimePoint now, Actions& actions);
  void lease_expired(TimePoint now, const std::string& why, Actions& actions);
  bool may_save_alone() const;
  TimePoint saves_until() const;
  void end_saving(TimePoint now, Actions& actions);
  bool is_the_standby() const;
  void consider_voting();
  void dial(TimePoint now, Actions& actions);
  RoundNumber vote_on_this_link(Actions& actions);
  link::Join own_join(TimePoint now, RoundNumber vote) const;
  std::optional<TimePoint> own_lead_ends_at() const;
  std::optional<TimePoint> stands_at() const;
  void stand_if_due(TimePoint now, Actions& actions);
  void follow_standby(TimePoint now, Actions& actions);
  void lead_again(TimePoint now, Actions& actions);
  void step_down(TimePoint now, Actions& actions);
  void rejoin(TimePoint now, Actions& actions);
  void hang_up(TimePoint now, const std::string& reason, Actions& actions);
  void stop_workers(TimePoint now, const std::string& reason, int signal, Actions& actions);
  void pass_on(TimePoint now, const Supervisor::Actions& from, Actions& actions);
  void settled(TimePoint now, const supervisor::Settled& settled, Actions& actions);
  PendingFailures::Place place() const;
  void conclude_if_examined(TimePoint now, Actions& actions);
  void examine(const Outcome& outcome, Actions& actions);
  void say(link::Message message, Actions& actions);
  void exit(agent::Exit last, Actions& actions);
  void exit_by_signal(Actions& actions);
  link::Heartbeat heartbeat(TimePoint now);
  void check_link(TimePoint now, Actions& actions);
  void look_at_world(TimePoint now, Actions& actions);
  void look_at_workers(bool is_wanted, Actions& actions);
  void look_at_interfaces(const link::Sealed& sealed, Actions& actions);
  void look_at_place(TimePoint now, const std::vector<std::string>& addresses, Actions& actions);
  void ask_for_rivals(TimePoint now, Actions& actions);
  void tell_doubt(Actions& actions);
  void tell_waiting(TimePoint now, Actions& actions);
  bool reads_first(TimePoint now);
  void wait_for_a_seat(TimePoint now, Phase phase);
  bool in_round() const;
  std::string gone_text(TimePoint now) const;
  std::string where_the_master_is() const;
  std::string whose_word_is_missing() const;

  Config config_;
  AgentFacts facts_;
  PhaseOf<Phase> phase_{Phase::dialing, steps};
  CoordinatorLink link_;
  std::string waiting_for_;     // text of the next status line
  std::optional<Doubt> doubt_;  // about the address at which other nodes are to reach this master
  DuplicateMasterCheck rivals_;
  SelfLaunchDetector self_launch_detector_;
  std::string local_address_;    // our address on the route to the master
  WayToOthers way_;              // of the round in sealed_
  std::string stray_interface_;  // warning about an unreachable interface; may be empty
  std::optional<TimePoint> status_due_;
  // Set while dialing, joining or drained, and in succeeded while the coordinator does not reply.
  std::optional<TimePoint> seat_deadline_;
  bool has_read_first_ = false;  // deadline passed while suspended: read pending messages first
  std::optional<link::Sealed> sealed_;  // current or last round of this node
  bool has_had_seat_ = false;           // in any round, even if lost since
  std::optional<Supervisor> supervisor_;
  PendingFailures pending_failures_;            // of the current attempt
  std::optional<supervisor::Settled> settled_;  // set until all evidence has arrived
  std::optional<link::Failed> left_;            // failure to report if the other nodes missed it
  link::Drained drained_;  // includes the heartbeat readings from when the drain began
  WorkerStatsReporter worker_stats_reporter_;
  // Messages sent in the current round; sent again when a link resumes.
  std::vector<link::Message> said_in_round_;
  std::optional<Saving> saving_;  // in the current round
  // The lease expired while this node was suspended. Until then the agent waits for the coordinator
  // to confirm the seat.
  std::optional<TimePoint> doubt_until_;
  bool are_paused_ = false;        // whether the workers are paused meanwhile
  Duration asleep_{};              // time suspended since the workers were started
  bool drain_asked_ = false;       // by the coordinator, in the current round
  bool job_ends_ = false;          // the coordinator announced that no round follows
  std::optional<int> stopped_by_;  // the first stop signal received
  std::string stop_reason_;        // for stopped_by_
  std::string notice_;             // preemption notice not yet sent to the coordinator
  std::optional<agent::Exit> exit_when_settled_;
  std::optional<std::string> seat_lost_;  // reason; set until no worker of the round is alive here
  // --- successor of a lost coordinator (agent_standby.cpp) ---
  std::optional<link::Standby> standby_;        // of the round in sealed_, or of the lost round
  bool may_vote_ = false;                       // in that round, once the lease has expired
  link::Record record_;                         // the parts received so far
  std::optional<agent::StandsBy> own_standby_;  // set if this node is a standby candidate
  std::optional<link::Standby> own_place_;      // this node as the coordinator names it
  // Our vote in a round whose lease has expired, and the earliest time to cast it. Kept until we
  // follow a coordinator again.
  struct Vote {
    RoundNumber round{};
    TimePoint from{};
    bool is_given = false;  // the standby has received it, or may have
  };
  std::optional<Vote> vote_;
  bool fell_silent_ = false;             // the last link was given up because it fell silent
  std::optional<TimePoint> refused_at_;  // last attempt: connection refused
  bool saves_alone_ = false;             // workers are stopping and saving without a master
  bool stands_ = false;                  // this node is the standby and has voted for itself
  bool is_deposed_ = false;              // this node hosts the coordinator, which lost leadership
  bool turned_away_ = false;             // it hosted it; the coordinator has stepped down
  Endpoint standby_dialled_;
  bool is_at_standby_ = false;              // the link, or the last dial, goes to the standby
  std::optional<TimePoint> leads_until_;    // see agent::LeadsUntil
  std::vector<Endpoint> old_masters_ = {};  // former masters; the leader probes for them
  std::size_t master_looked_for_ = 0;
  TimePoint master_look_due_{};
  bool insisted_ = false;
  // --- the known cppruns, one of which is the leader (agent_turns.cpp) ---
  Places places_;
  // The greatest epoch received, and its sender. 0: none.
  std::uint64_t epoch_ = 0;
  Endpoint followed_;
  std::uint64_t stale_told_ = 0;     // epoch of the stale leader that was last logged
  bool has_heard_ = false;           // received a message on this link
  bool speaks_for_workers_ = false;  // on this link
  Duration unanswered_{};            // silence before the first message on this link
  TimePoint alone_since_{};          // since the last leader was lost or fell silent
};

static_assert(StateMachine<Agent>);

}  // namespace cpprun
