#include "launcher/agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "proto/bounds.h"

namespace cpprun {

namespace {

// What a shell expects of a command line that cannot be obeyed.
constexpr int usage_exit_code = 2;

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::string seconds_left(TimePoint now, TimePoint deadline) {
  return fmt::format("{:.0f} s left", std::max(0.0, seconds(deadline - now)));
}

}  // namespace

Agent::Agent(Config config, AgentFacts facts)
    : config_(std::move(config)),
      facts_(std::move(facts)),
      link_({.heartbeat = config_.heartbeat(),
             .lease = config_.lease(),
             .local = facts_.hosts_keeper}) {}

Agent::Actions Agent::start(TimePoint now) {
  wait_for_a_seat(now, Phase::dialing);
  waiting_for_ = "no answer yet";
  status_due_ = now + bounds::first_status_after;
  Actions actions;
  actions.emplace_back(agent::Dial{});
  return actions;
}

Agent::Actions Agent::handle(TimePoint now, const Event& event) {
  Actions actions;
  if (phase_ == Phase::over) return actions;
  std::visit([&](const auto& what) { on(now, what, actions); }, event);
  return actions;
}

// --- the link ------------------------------------------------------------------------------------

void Agent::on(TimePoint now, const agent::LinkUp& event, Actions& actions) {
  if (phase_ == Phase::dialing) {
    auto sockets = choose_interfaces(facts_.interfaces, event.local_address, config_.nodes_max == 1,
                                     facts_.node.environment);
    if (!sockets) {
      exit({.code = usage_exit_code, .reason = sockets.error().reason}, actions);
      return;
    }
    facts_.node.sockets = std::move(*sockets);
    phase_ = Phase::joining;
  }
  if (phase_ == Phase::running && link_.silent(now)) lose_seat(now, master_is_gone(), actions);
  if (seat_lost_) {
    // There is nothing to say before the last of the workers is gone.
    actions.emplace_back(agent::HangUp{*seat_lost_});
    link_.went_down(now);
    return;
  }
  link_.came_up(now);
  const RoundNumber after = sealed_ ? sealed_->round : RoundNumber{};
  actions.emplace_back(agent::Say{join_message(config_, facts_, after)});
  // What the keeper may have missed while the link was down. It ignores what it knows already.
  for (const link::Message& message : said_in_round_) actions.emplace_back(agent::Say{message});
}

void Agent::on(TimePoint now, const agent::LinkDown& event, Actions&) {
  link_.went_down(now);
  waiting_for_ = event.reason;
  if (phase_ == Phase::joining) {
    phase_ = Phase::dialing;
    // A spare has waited without a limit, for a master that was there.
    if (!seat_deadline_) wait_for_a_seat(now, Phase::dialing);
  }
  if (!status_due_ && phase_ == Phase::dialing) status_due_ = now + bounds::first_status_after;
}

void Agent::check_link(TimePoint now, Actions& actions) {
  const KeeperLink::Due due = link_.take_due(now);
  if (due.heartbeat) actions.emplace_back(agent::Say{link::Heartbeat{}});
  if (due.dial) actions.emplace_back(agent::Dial{});
  const bool silent = link_.silent(now);
  if (link_.up() && silent) {
    const std::string reason =
        fmt::format("nothing was heard of the master for {} s", seconds(config_.lease()));
    actions.emplace_back(agent::HangUp{reason});
    on(now, agent::LinkDown{reason}, actions);
  }
  if (in_round() && silent && !exit_when_settled_ && !seat_lost_) {
    lose_seat(now, master_is_gone(), actions);
  }
}

// The others have given our seat away by now, or there are no others left. Whoever runs here is
// ended; then this node comes back as a newcomer where the job can use one.
void Agent::lose_seat(TimePoint now, const std::string& why, Actions& actions) {
  seat_lost_ = why;
  if (phase_ != Phase::running) return come_back(now, actions);
  stop_workers(now, why, SIGTERM, actions);
}

void Agent::come_back(TimePoint now, Actions& actions) {
  const std::string reason = *std::exchange(seat_lost_, std::nullopt);
  const bool elastic = config_.nodes_min < config_.nodes_max;
  const bool restarts_left = sealed_ && sealed_->restart_count < config_.restarts_max;
  // Of a node that has done its part nobody knows whether it is still wanted.
  if (phase_ == Phase::succeeded || (!elastic && !restarts_left)) {
    return exit({.code = 1, .reason = reason}, actions);
  }
  actions.emplace_back(
      agent::TellNote{fmt::format("{}; this node asks for a seat again, for {:.0f} s at most",
                                  reason, seconds(config_.join_timeout))});
  if (link_.up()) {
    actions.emplace_back(agent::HangUp{reason});
    link_.went_down(now);
  }
  sealed_.reset();
  said_in_round_.clear();
  first_failure_.reset();
  status_due_ = now + bounds::status_interval;
  wait_for_a_seat(now, Phase::dialing);
}

// --- what the keeper says ------------------------------------------------------------------------

void Agent::on(TimePoint now, const agent::Heard& event, Actions& actions) {
  link_.heard(now);
  std::visit(Overloaded{
                 [&](const link::Waiting& m) {
                   waiting_for_ = m.reason;
                   // A spare waits as long as the job lasts; it may be needed any day.
                   if (m.spare) {
                     seat_deadline_.reset();
                   } else if (!seat_deadline_) {
                     seat_deadline_ = now + config_.join_timeout;
                   }
                   if (phase_ == Phase::joining || phase_ == Phase::drained) {
                     tell_waiting(now, actions);
                   }
                 },
                 [&](const link::Refused& m) { refused(now, m.reason, actions); },
                 [&](const link::Sealed& m) { sealed(now, m, actions); },
                 [&](const link::Drain& m) { drain(now, m, actions); },
                 [&](const link::Finish& m) { finish(now, m, actions); },
                 [&](const link::Heartbeat&) {},
                 [&](const auto&) {
                   const std::string reason = "the master said what only an agent says";
                   actions.emplace_back(agent::HangUp{reason});
                   on(now, agent::LinkDown{reason}, actions);
                 },
             },
             event.message);
}

// In a round it is our seat there that is refused: it is somebody else's, or this is another
// master.
void Agent::refused(TimePoint now, const std::string& why, Actions& actions) {
  const std::string reason =
      fmt::format("the master at {} refused this node: {}", where_the_master_is(), why);
  if (!in_round()) return exit({.code = 1, .reason = reason}, actions);
  if (!exit_when_settled_ && !seat_lost_) lose_seat(now, reason, actions);
}

void Agent::sealed(TimePoint now, const link::Sealed& sealed, Actions& actions) {
  if (phase_ != Phase::joining && phase_ != Phase::drained) return;
  sealed_ = sealed;
  said_in_round_.clear();
  drain_asked_ = false;
  phase_ = Phase::running;
  seat_deadline_.reset();
  status_due_.reset();
  std::vector<WorkerSpec> specs = make_plan(config_, sealed, facts_.program, facts_.node);
  actions.emplace_back(agent::Prepare{specs});
  actions.emplace_back(agent::TellStarted{sealed, facts_.node.sockets});
  supervisor_.emplace(std::move(specs), config_.grace);
  pass_on(now, supervisor_->start(now), actions);
}

void Agent::drain(TimePoint now, const link::Drain& drain, Actions& actions) {
  if (!sealed_ || drain.round != sealed_->round) return;
  if (phase_ == Phase::running) {
    // The last worker may have ended with 0 in this very moment: then there is nobody to stop, but
    // the keeper still waits for our word.
    drain_asked_ = true;
    stop_workers(now, drain.reason, SIGTERM, actions);
  }
  if (phase_ == Phase::succeeded) {
    wait_for_a_seat(now, Phase::drained);
    say(link::Drained{drain.round}, actions);
  }
}

void Agent::finish(TimePoint now, const link::Finish& finish, Actions& actions) {
  agent::Exit last{.code = finish.exit_code, .reason = finish.reason, .root = finish.root};
  if (phase_ != Phase::running) {
    exit(std::move(last), actions);
    return;
  }
  exit_when_settled_ = std::move(last);
  stop_workers(now, finish.reason, SIGTERM, actions);
}

// --- the workers ---------------------------------------------------------------------------------

void Agent::on(TimePoint now, const agent::FromWorker& event, Actions& actions) {
  if (supervisor_) pass_on(now, supervisor_->handle(now, event.event), actions);
}

void Agent::stop_workers(TimePoint now, const std::string& reason, int signal, Actions& actions) {
  if (!supervisor_) return;
  pass_on(now, supervisor_->handle(now, supervisor::Stop{reason, signal}), actions);
}

void Agent::pass_on(TimePoint now, const Supervisor::Actions& from, Actions& actions) {
  for (const supervisor::Action& action : from) {
    std::visit(
        Overloaded{
            [&](const supervisor::Failed& m) {
              actions.emplace_back(agent::TellFailed{m});
              // The keeper is told as soon as the evidence is in: see on(Examined).
              first_failure_ = m.outcome.local_rank;
              actions.emplace_back(agent::Examine{m.outcome});
            },
            [&](const supervisor::Draining& m) { actions.emplace_back(agent::TellDraining{m}); },
            [&](const supervisor::Killing& m) { actions.emplace_back(agent::TellKilling{m}); },
            [&](const supervisor::Settled& m) { settled(now, m, actions); },
            [&](const auto& m) { actions.emplace_back(agent::Work{m}); },
        },
        action);
  }
}

void Agent::on(TimePoint, const agent::Examined& event, Actions& actions) {
  if (!sealed_ || first_failure_ != event.evidence.outcome.local_rank) return;
  first_failure_.reset();
  say(link::Failed{sealed_->round, failure_of(event.evidence, sealed_->group_rank, facts_.host)},
      actions);
}

// Nobody of this attempt is alive here any more.
void Agent::settled(TimePoint now, const supervisor::Settled& settled, Actions& actions) {
  const std::optional<Outcome>& first = settled.first_failure;
  for (const Outcome& outcome : settled.outcomes) {
    const bool is_first = first && first->local_rank == outcome.local_rank;
    if (!outcome.good() && !is_first) actions.emplace_back(agent::Examine{outcome});
    // It may still be alive, so nobody may be told that this node has drained.
    if (outcome.given_up && !exit_when_settled_) {
      exit_when_settled_ = agent::Exit{
          .code = 1,
          .reason = fmt::format("rank {} (pid {}) does not even end of SIGKILL: it sits in the "
                                "kernel, in a driver or a file system that hangs; this node is out",
                                outcome.rank.value, outcome.pid)};
    }
  }
  if (exit_when_settled_) {
    exit(*exit_when_settled_, actions);
    return;
  }
  if (seat_lost_) {
    if (stopped_by_) return exit_by_signal(actions);
    return come_back(now, actions);
  }
  const bool undisturbed = settled.drain_reason.empty() && !drain_asked_ && !stopped_by_;
  if (!first && undisturbed) {
    phase_ = Phase::succeeded;
    say(link::Succeeded{sealed_->round}, actions);
    return;
  }
  wait_for_a_seat(now, Phase::drained);
  say(link::Drained{sealed_->round}, actions);
  // Whoever was asked to stop need not wait for the others to end, unless they meet at this node.
  if (stopped_by_ && (!facts_.hosts_keeper || insisted_)) exit_by_signal(actions);
}

// --- the end -------------------------------------------------------------------------------------

void Agent::on(TimePoint now, const agent::Signalled& event, Actions& actions) {
  if (stopped_by_) {
    insisted_ = true;
    if (phase_ != Phase::running || !supervisor_) {
      exit_by_signal(actions);
      return;
    }
    const std::string reason = fmt::format("{} arrived again", signal_name(event.signal));
    pass_on(now, supervisor_->handle(now, supervisor::Insist{reason}), actions);
    return;
  }
  stopped_by_ = event.signal;
  const std::string reason = fmt::format("asked to stop by {}", signal_name(event.signal));
  say(link::Leave{.signal = event.signal, .reason = reason}, actions);
  if (phase_ == Phase::running) {
    stop_workers(now, reason, event.signal, actions);
  } else if (!facts_.hosts_keeper) {
    exit_by_signal(actions);
  }
  // The host of the keeper goes when the keeper says that the job is over.
}

void Agent::exit_by_signal(Actions& actions) {
  const int signal = stopped_by_.value_or(SIGTERM);
  exit({.code = 128 + signal, .reason = fmt::format("asked to stop by {}", signal_name(signal))},
       actions);
}

void Agent::exit(agent::Exit last, Actions& actions) {
  if (phase_ == Phase::over) return;
  phase_ = Phase::over;
  if (sealed_) {
    last.group_rank = sealed_->group_rank;
    last.had_workers = true;
  }
  if (link_.up()) actions.emplace_back(agent::HangUp{last.reason});
  actions.emplace_back(std::move(last));
}

// --- time ----------------------------------------------------------------------------------------

Agent::Actions Agent::advance(TimePoint now) {
  Actions actions;
  if (phase_ == Phase::over) return actions;
  check_link(now, actions);
  if (supervisor_ && phase_ == Phase::running) {
    pass_on(now, supervisor_->advance(now), actions);
  }
  if (status_due_ && *status_due_ <= now) {
    status_due_.reset();
    if (phase_ == Phase::dialing) {
      status_due_ = now + bounds::status_interval;
      tell_waiting(now, actions);
    }
  }
  if (seat_deadline_ && *seat_deadline_ <= now && phase_ != Phase::over) {
    const std::string reason =
        fmt::format("gave up after {:.0f} s: {}", seconds(config_.join_timeout), waiting_for_);
    say(link::Leave{.signal = 0, .reason = reason}, actions);
    exit({.code = 1, .reason = reason}, actions);
  }
  return actions;
}

std::optional<TimePoint> Agent::next_deadline() const {
  if (phase_ == Phase::over) return std::nullopt;
  std::optional<TimePoint> soonest;
  const auto consider = [&soonest](std::optional<TimePoint> deadline) {
    if (deadline && (!soonest || *deadline < *soonest)) soonest = deadline;
  };
  consider(link_.next_deadline());
  consider(status_due_);
  consider(seat_deadline_);
  if (supervisor_ && phase_ == Phase::running) consider(supervisor_->next_deadline());
  const bool watches_master = !link_.local() && (link_.up() || in_round());
  if (watches_master && !exit_when_settled_ && !seat_lost_) consider(link_.silent_at());
  return soonest;
}

void Agent::tell_waiting(TimePoint now, Actions& actions) {
  const std::string left = seat_deadline_ ? "; " + seconds_left(now, *seat_deadline_) : "";
  const std::string where =
      phase_ == Phase::dialing
          ? fmt::format("no word from the master at {}: ", where_the_master_is())
          : std::string{};
  actions.emplace_back(agent::TellWaiting{where + waiting_for_ + left});
}

void Agent::wait_for_a_seat(TimePoint now, Phase phase) {
  phase_ = phase;
  seat_deadline_ = now + config_.join_timeout;
}

void Agent::say(link::Message message, Actions& actions) {
  if (in_round()) said_in_round_.push_back(message);
  if (link_.up()) actions.emplace_back(agent::Say{std::move(message)});
}

bool Agent::in_round() const {
  return phase_ == Phase::running || phase_ == Phase::succeeded || phase_ == Phase::drained;
}

std::string Agent::where_the_master_is() const {
  return to_string(config_.endpoint);
}

std::string Agent::master_is_gone() const {
  return fmt::format("the master at {} is gone: {}", where_the_master_is(), waiting_for_);
}

}  // namespace cpprun
