// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One machine's seat in a job, from dialling to the exit code.
//
//   dialing    No link to the coordinator yet. Dials, with growing pauses, until join_timeout.
//   joining    Has asked for a seat and is told now and then who is missing, until join_timeout.
//   running    The round is sealed; a Supervisor has this node's workers.
//   succeeded  All of them ended with 0. Peers may go on for hours; nothing is running here.
//   drained    Nobody of the round is alive here, and the coordinator knows. A new round follows,
//              or the end.
//   over       Has said Exit. Every later event is ignored.
//
// In running, succeeded and drained the link may break: it is dialled again and resumed, and the
// workers never notice. The agent gives up when the coordinator answers nothing for the lease, or
// when this process was stopped for as long. A node that has succeeded can do no harm; it goes on
// asking how the job ended, for join_timeout at most. Any other node kills its workers at once,
// because the others give its ranks away at that moment, and two workers with one rank would
// corrupt the job. It then dials again as a newcomer if the job is elastic or has restarts left,
// and is over otherwise.
//
// Where the lease ends while no process of this node runs, as on a machine that is suspended, not
// even the watchdog notices. Then nothing was computed meanwhile, and silence proves nothing: the
// workers are paused, and the coordinator is asked. Either the seat is this node's still, and they
// go on, or they are ended, after another lease at the latest.
//
// The coordinator decides; the only decision an agent takes alone is to give up.

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
  // The fence: when the watchdog has to kill our workers because this process has not, and others
  // may have their ranks. None while there is no seat to lose, or nobody who could take it.
  std::optional<TimePoint> overdue_at() const;
  // The invariant that is broken, if one is.
  std::optional<std::string> check() const;

 private:
  // The workers are sent that signal at that moment.
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
      {Phase::running, Phase::drained},    // nobody is left, as was asked or after a failure
      {Phase::running, Phase::dialing},    // the seat was lost, and nobody is left
      {Phase::succeeded, Phase::drained},  // the round breaks
      {Phase::succeeded, Phase::running},  // it went on without this node, which has a seat again
      {Phase::drained, Phase::running},    // the next round
      {Phase::drained, Phase::dialing},    // the seat was lost
      {Phase::dialing, Phase::over},       // it may end at any time
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
  // The supervisor's clock: it stands still while this node sleeps.
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
  std::string waiting_for_;     // what the next status line says
  std::optional<Doubt> doubt_;  // of the address at which this node, the master, is to be met
  RivalMaster rivals_;
  OwnWorld own_world_;
  std::string local_address_;    // from which this node reaches the master
  WayToOthers way_;              // of the round in sealed_
  std::string stray_interface_;  // the warning about one that leads nowhere; may be empty
  std::optional<TimePoint> status_due_;
  // Set while dialing, joining or drained, and in succeeded while nobody answers.
  std::optional<TimePoint> seat_deadline_;
  bool has_read_first_ = false;         // the deadline passed in sleep; what came is read first
  std::optional<link::Sealed> sealed_;  // the round this node is in, or was in last
  bool has_had_seat_ = false;           // in any round, be it that it was lost
  std::optional<Supervisor> supervisor_;
  PendingFailures pending_failures_;            // of the attempt that runs
  std::optional<supervisor::Settled> settled_;  // set while evidence is still to come
  std::optional<link::Failed> left_;            // what the others may turn out to have missed
  link::Drained drained_;                       // with what its beats said when it began to end
  ToldFigures told_figures_;
  // What the coordinator was told of the current round; told again when a link resumes.
  std::vector<link::Message> said_in_round_;
  std::optional<Saving> saving_;  // in the current round
  // The lease has ended in sleep, and the coordinator is asked until then whether it has.
  std::optional<TimePoint> doubt_until_;
  bool are_paused_ = false;        // the workers, meanwhile
  Duration asleep_{};              // for so long this node slept since its workers were started
  bool drain_asked_ = false;       // the coordinator has asked for it in the current round
  bool job_ends_ = false;          // and has said that no round follows
  std::optional<int> stopped_by_;  // the first signal that arrived
  std::string stop_reason_;        // of that
  std::string notice_;             // of a preemption, which the coordinator has not heard yet
  std::optional<agent::Exit> exit_when_settled_;
  std::optional<std::string> seat_lost_;  // why; set until nobody of the round is alive here
  // --- who goes on with the job if its coordinator is lost (agent_standby.cpp) ---
  std::optional<link::Standby> standby_;  // of the round in sealed_, or of the one that was lost
  bool may_vote_ = false;                 // in that round, if the lease ends
  link::Record record_;                   // as far as it has come
  std::optional<agent::StandsBy> own_standby_;  // that is this node, where it may be
  std::optional<link::Standby> own_place_;      // as which the coordinator names it
  // Our vote in a round whose lease has ended, and from when on it may be given; until we follow
  // some coordinator again.
  struct Vote {
    RoundNumber round{};
    TimePoint from{};
    bool is_given = false;  // the standby has it, or may have
  };
  std::optional<Vote> vote_;
  bool fell_silent_ = false;             // the link that was up last, before it was given up
  std::optional<TimePoint> refused_at_;  // nothing listens there, as the last attempt showed
  bool saves_alone_ = false;             // the workers end without a master
  bool stands_ = false;                  // this node is that standby, and has given itself its vote
  bool is_deposed_ = false;              // this node has the coordinator, which leads no more
  bool turned_away_ = false;             // it had
  Endpoint standby_dialled_;
  bool is_at_standby_ = false;              // where the link leads, or was dialled last
  std::optional<TimePoint> leads_until_;    // see LeadsUntil
  std::vector<Endpoint> old_masters_ = {};  // who may come anew; whoever leads looks for them
  std::size_t master_looked_for_ = 0;
  TimePoint master_look_due_{};
  bool insisted_ = false;
  // --- which cppruns there are, one of which leads (agent_turns.cpp) ---
  Places places_;
  // The greatest epoch that was heard, and where; 0: none.
  std::uint64_t epoch_ = 0;
  Endpoint followed_;
  std::uint64_t stale_told_ = 0;     // of which one that leads no more the log was told
  bool has_heard_ = false;           // a word, on this link
  bool speaks_for_workers_ = false;  // on this link
  Duration unanswered_{};            // before its first word
  TimePoint alone_since_{};          // the last one that was heard is lost, or silent
};

static_assert(StateMachine<Agent>);

}  // namespace cpprun
