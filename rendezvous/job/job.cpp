// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <variant>

#include "proto/signal_names.h"
#include "proto/state_machine.h"
#include "rendezvous/job/job_texts.h"

namespace cpprun {

namespace {

using coordinator::NodeChange;
using Kind = CommandResult::Kind;
using State = Member::State;

bool is_of(const Member& member, Rank rank) {
  const int from_base = rank.value - member.ranks.base.value;
  return from_base >= 0 && from_base < member.join.local_world_size;
}

JobOptions resumed(const JobRecord& record, JobOptions options) {
  options.restarts_before = record.restarts;
  options.takeover_window = std::max(options.takeover_window, record.takeover_window);
  return options;
}

}  // namespace

class Job::TimeKept {
 public:
  TimeKept(Job& job, TimePoint now) : job_(job), now_(now) {}
  ~TimeKept() { job_.rounds_.place_time(now_, job_.round()); }
  TimeKept(const TimeKept&) = delete;
  TimeKept& operator=(const TimeKept&) = delete;

 private:
  Job& job_;
  const TimePoint now_;
};

Job::Job(JobTerms terms, JobOptions options)
    : nodes_(options.lost_after()), rounds_(std::move(terms), std::move(options)) {}

// --- recovery ------------------------------------------------------------------------------------

Job::Job(TimePoint now, const JobRecord& record, const JobOptions& options, LinkId first,
         bool has_store)
    : nodes_(now, record, resumed(record, options).lost_after(), first),
      rounds_(now, record, resumed(record, options), nodes_.round(), has_store) {}

JobRecord Job::record() const {
  JobRecord record;
  nodes_.keep(record);
  rounds_.keep(record);
  return record;
}

// On the standby: the node that hosted the coordinator is gone, with its workers or without a seat.
void Job::lose_host(TimePoint now, TimePoint heard, LinkId link, Actions& actions) {
  const TimeKept kept{*this, now};
  const TimePoint last = std::min(std::max(heard, rounds_.sealed_at()), now);
  if (round().find(link) != nullptr) nodes_.round().set_broken(link, last);
  lose(now, {.holder = link, .heard = last}, "it hosted the job and does not respond", actions);
  rounds_.update_phase(now, nodes_, actions);
}

void Job::succeed_host(TimePoint now, LinkId link, Actions& actions) {
  const TimeKept kept{*this, now};
  const Member host = *round().find(link);
  // Its round had drained before, so the store was of no use.
  if (round().phase() == Round::Phase::draining) rounds_.set_lost_store(false);
  nodes_.round().leave(link);
  actions.emplace_back(change_of(host, NodeChange::Kind::left, "it transferred leadership"));
  if (round().phase() == Round::Phase::sealed) {
    rounds_.break_politely(now, fmt::format("{} left and transferred leadership", name_of(host)),
                           nodes_, actions);
  }
  rounds_.update_phase(now, nodes_, actions);
}

void Job::lead_again(TimePoint now, Actions& actions) {
  const TimeKept kept{*this, now};
  rounds_.lead_again(now, nodes_, actions);
}

bool Job::keeps_round_of(LinkId link) const {
  const Member* const member = round().find(link);
  return member != nullptr && member->state != State::waiting && !over() &&
         round().phase() == Round::Phase::sealed && !has_lost_its_store();
}

// --- joins ---------------------------------------------------------------------------------------

void Job::join(TimePoint now, const Caller& caller, const link::Join& join, Actions& actions) {
  if (is_deposed()) return;  // its coordinator closes the link
  const TimeKept kept{*this, now};
  const auto known = round().find_agent(join, caller.peer);
  // It is the same agent, whatever happened to its seat.
  auto further_peers = known ? round().find(*known)->further_peers : std::vector<std::string>{};
  if (rejoin(now, caller, join, actions)) return;
  if (nodes_.reject(now, caller, join, over(), actions)) {
    // Its older link, now gone, may have been the last thing waited for.
    rounds_.update_phase(now, nodes_, actions);
    rounds_.consider_sealing(now, nodes_, actions);
    return;
  }
  auto reason = join_check(terms(), round(), rounds_.options().lease, join);
  if (const auto& finish = rounds_.finish()) {
    // The node is late, or a spare that was never needed: it ends as the job did. A node that may
    // still have workers of the job is rejected, because they must end first.
    reason = disagreement(terms(), join);
    if (!reason && join.after != RoundNumber{} && !join.idle) {
      reason = fmt::format("{} is over: {}", quoted_job(terms().id), finish->reason);
    }
    if (!reason) {
      actions.emplace_back(coordinator::Say{caller.link, link::brief(*finish)});
      actions.emplace_back(coordinator::HangUp{caller.link, "the job is over"});
      return;
    }
  }
  if (reason) {
    coordinator::refuse({caller.link, caller.peer}, join.host, *reason, actions);
    // Its older link, now gone, may have been the last thing waited for.
    rounds_.update_phase(now, nodes_, actions);
    return;
  }
  // It repeats the number of its last round, under another master: we must not use that number
  // again.
  nodes_.round().number_from(join.after);
  auto wait = nodes_.wait_for_seat(join);
  nodes_.enter(now, caller, join, std::move(further_peers));
  rounds_.joined(now, caller.link, nodes_, actions);
  if (!wait) return;
  wait->spare = round().phase() == Round::Phase::sealed;
  actions.emplace_back(coordinator::Say{caller.link, *wait});
}

// The same agent on a newer link, possibly before we noticed that the older one broke. It may have
// missed messages on that one. Returns false if it is to be treated as a new node.
bool Job::rejoin(TimePoint now, const Caller& caller, const link::Join& join, Actions& actions) {
  const auto old_link = round().find_agent(join, caller.peer);
  if (!old_link) return false;
  const Member member = *round().find(*old_link);
  const bool is_of_a_round = join.after != RoundNumber{};
  const bool knows_its_round = is_of_a_round && join.after == round().number();
  if (!knows_its_round && (is_of_a_round ? !join.idle : member.peer != caller.peer)) return false;
  if (caller.link < *old_link) {
    // A late message through the older link: connections overtake each other.
    actions.emplace_back(
        coordinator::HangUp{caller.link, "replaced by a newer connection of the same agent"});
    return true;
  }
  if (knows_its_round) {
    resume(now, *old_link, caller, join, actions);
    rounds_.resumed_in_round(now, caller.link, join, nodes_, actions);
    return true;
  }
  const bool is_alike = member.join.node_rank == join.node_rank && !over() &&
                        member.join.local_world_size == join.local_world_size;
  // The workers it ended were of an earlier round: it missed the message that gives it a seat in
  // this one.
  const bool has_not_heard = is_of_a_round ? join.after.value < round().number().value : join.fresh;
  const bool may_hear = round().phase() == Round::Phase::sealed && !has_lost_its_store();
  if (member.state == State::running && is_alike && has_not_heard && may_hear) {
    if (auto seat = round().seat_of(*old_link)) {
      resume(now, *old_link, caller, join, actions);
      rounds_.resumed_with_seat(now, caller.link, *std::move(seat), nodes_, actions);
      return true;
    }
  }
  give_up_seat(now, *old_link, actions);
  if (member.state == State::running && is_alike) {
    resume(now, *old_link, caller, join, actions);
    rounds_.resumed_without_seat(now, caller.link, join, nodes_, actions);
    return true;
  }
  actions.emplace_back(
      coordinator::HangUp{*old_link, "replaced by a newer connection of the same agent"});
  nodes_.round().leave(*old_link);
  return false;
}

void Job::resume(TimePoint now, LinkId old_link, const Caller& caller, const link::Join& join,
                 Actions& actions) {
  nodes_.resume(now, old_link, caller, join, actions);
  if (round().phase() == Round::Phase::sealed) {
    hangs_.moved(old_link, caller.link, round(), actions);
  }
  // The request, or the reply to it, may have been lost with the old link.
  const Member& member = *round().find(caller.link);
  if (member.upgrade_asked > 0 && !member.upgraded) {
    actions.emplace_back(coordinator::Say{caller.link, link::Upgrade{member.upgrade_asked}});
  }
  rounds_.resumed(now, old_link, caller.link, join, nodes_, actions);
}

// The other nodes cannot continue without the workers that are missing there.
void Job::give_up_seat(TimePoint now, LinkId link, Actions& actions) {
  const Member& member = *round().find(link);
  if (over() || round().phase() != Round::Phase::sealed) return;
  if (member.state != State::running) return;
  const std::string why = fmt::format("{} rejoined without its workers", name_of(member));
  // It must not be asked to drain: it is in no round.
  nodes_.round().set_state(link, State::waiting, now);
  rounds_.break_politely(now, why, nodes_, actions);
}

Result<void> Job::admit(const std::string& peer) const {
  if (round().phase() == Round::Phase::gathering || over()) return failure("no round is running");
  if (has_lost_its_store() || is_deposed()) return failure("the store of this round was lost");
  return round().admits(peer);
}

// --- messages ------------------------------------------------------------------------------------

void Job::hear(TimePoint now, LinkId link, const link::Message& message, Actions& actions) {
  const TimeKept kept{*this, now};
  const Member* member = round().find(link);
  if (member == nullptr || is_deposed()) {
    return;  // a late message of an agent that was rejected or lost
  }
  if (!member->local) nodes_.round().leases().renew(link, now);
  // After the end no message changes anything. An agent that still sends one has not received the
  // end yet.
  const auto is_current = [this](RoundNumber number) {
    return number == round().number() && !over();
  };
  std::visit(
      Overloaded{
          [&](const link::Failed& m) {
            // A node without a seat in this round means another round.
            if (!is_current(m.round) || member->state == State::waiting) return;
            if (!is_of(*member, m.failure.rank)) {
              actions.emplace_back(coordinator::HangUp{
                  link, fmt::format("reported rank {}, which does not belong to {}",
                                    m.failure.rank.value, name_of(*member))});
              return;
            }
            rounds_.failed(now, link, m, nodes_, actions);
          },
          [&](const link::Succeeded& m) {
            if (is_current(m.round)) succeeded(now, link, actions);
          },
          [&](const link::Drained& m) {
            if (!is_current(m.round)) return;
            // A verdict is sent before the end of the job.
            hangs_.left(now, link, round(), actions);
            rounds_.drained(now, link, m, nodes_, actions);
          },
          [&](const link::Leave& m) {
            if (!over()) rounds_.leave(now, link, m, nodes_, actions);
          },
          [&](const link::Heartbeat& m) {
            if (!m.notice.empty()) noticed(now, *member, m.notice, actions);
            // The coordinator's own agent shares its clock, and has no link that could fall
            // silent.
            if (!member->local) answer(now, link, m, actions);
            const Member* const node = round().find(link);
            const bool runs = round().phase() == Round::Phase::sealed && !over();
            if (runs && node != nullptr && node->state == State::running) {
              hangs_.heard(now, link, m, round(), actions);
            }
          },
          [&](const link::Stands& m) {
            if (is_current(m.round)) rounds_.stands(now, link, m, nodes_, actions);
          },
          [&](const link::Status& m) {
            if (!is_current(m.round) || member->state == State::waiting) return;
            nodes_.round().figures_of(link).hear(now, m, member->join.local_world_size);
          },
          [&](const link::Upgraded& m) { nodes_.round().set_upgraded(link, m); },
          [&](const link::Captured& m) {
            if (!is_current(m.round) || member->state != State::running) return;
            hangs_.heard(now, link, m, round(), actions);
          },
          [&](const auto&) {
            // A second Join, or a message that only coordinators send.
            actions.emplace_back(coordinator::HangUp{link, "unexpected message from an agent"});
          },
      },
      message);
  if (over() || is_deposed() || !nodes_.reject_claimant(link, terms(), actions)) return;
  rounds_.update_phase(now, nodes_, actions);
  rounds_.consider_sealing(now, nodes_, actions);
}

// The reply repeats the times in the heartbeat, and none of its other contents.
void Job::answer(TimePoint now, LinkId link, const link::Heartbeat& beat, Actions& actions) {
  nodes_.round().clock_of(link).heard(now, beat.sent, beat.round_trip);
  rounds_.heard(now, link, beat, nodes_, actions);
  const Duration watch = over() ? Duration{} : nodes_.ask_for_stats(now, link);
  link::Heartbeat answer{beat.sent, beat.round_trip, watch};
  if (leadership().may_be_lost()) {
    answer.moment = std::chrono::floor<link::AgentTime>(now.time_since_epoch());
  }
  actions.emplace_back(coordinator::Say{link, answer});
}

void Job::look(TimePoint now, Actions& actions) {
  nodes_.look(now);
  // The agent in our own process sends no heartbeats.
  round().each([&](LinkId link, const Member& member) {
    if (!member.local || over()) return;
    const Duration watch = nodes_.ask_for_stats(now, link);
    if (watch > Duration{}) {
      actions.emplace_back(coordinator::Say{link, link::Heartbeat{.watch = watch}});
    }
  });
}

// --- lost links and nodes ------------------------------------------------------------------------

void Job::close(TimePoint now, const Closing& closing, Actions& actions) {
  const TimeKept kept{*this, now};
  const auto& [link, reason, broken] = closing;
  Round& round = nodes_.round();
  const Member* member = round.find(link);
  if (member == nullptr || !member->connected) return;
  if (is_deposed()) {
    // If this coordinator resumes leadership, a node with a seat may still have workers.
    return leadership().may_be_lost() && member->state != State::waiting
               ? round.set_broken(link, now)
               : round.leave(link);
  }
  if (over() && broken && member->group_rank && !member->local) {
    // It may not have received the end. The master waits for it as long as for any silent node.
    round.set_broken(link, now);
    return;
  }
  if (!over() && broken && may_rejoin(*member)) {
    round.set_broken(link, now);
    actions.emplace_back(coordinator::Note{
        fmt::format("lost contact with {}: {}; the next round waits up to {} s for it",
                    name_of(*member), reason, in_seconds(lease()))});
    return;
  }
  if (over() || !member->has_workers()) {
    // None of its processes is alive, so its seat is free at once. A node that was asked to stop
    // has sent `leave`, and closes its link when it has drained. The standby closes its link when
    // it leads.
    const bool takes_over = leadership().is_offered_to(link);
    const bool has_said_so = !broken && (member->leaving || rounds_.round_end().stop || takes_over);
    if (!over() && !has_said_so) {
      actions.emplace_back(
          coordinator::Note{fmt::format("{} left while waiting: {}", name_of(*member), reason)});
      actions.emplace_back(change_of(*member, NodeChange::Kind::lost, reason));
    }
    round.leave(link);
    // The next coordinator need not wait for this node. After the end of the job this does not
    // matter: the record of ten thousand nodes must not be written ten thousand times as they leave
    // one by one.
    if (!over()) rounds_.record_changed();
    rounds_.update_phase(now, nodes_, actions);
    rounds_.consider_sealing(now, nodes_, actions);
    return;
  }
  round.set_broken(link, now);
  actions.emplace_back(coordinator::Note{
      .line = fmt::format("lost contact with {}: {}; waiting {} s for it to reconnect",
                          name_of(*member), reason, in_seconds(lease())),
      .level = LogLevel::warning});
}

// It has drained and waits for the next round. If that round were sealed without it, it would have
// to be broken for it at once.
bool Job::may_rejoin(const Member& member) const {
  if (member.local || member.leaving || !member.group_rank) return false;
  if (round().phase() == Round::Phase::draining) return member.state == State::drained;
  return round().phase() == Round::Phase::gathering;
}

std::optional<Job::Unattended> Job::unattended() const {
  if (round().size() == 0 || round().away() < round().size()) return std::nullopt;
  TimePoint since{};
  for (const auto& [link, member] : round().members()) {
    since = std::max(since, member->broke_at.value_or(since));
  }
  return Unattended{since, since + lease()};
}

void Job::advance(TimePoint now, Actions& actions) {
  const TimeKept kept{*this, now};
  rounds_.advance_leadership(now, nodes_, actions);
  if (is_deposed()) return;
  give_up_silent(now, actions);
  rounds_.advance(now, nodes_, actions);
  if (!over()) hangs_.advance(now, round(), actions);
}

std::optional<TimePoint> Job::next_deadline() const {
  auto soonest = rounds_.next_deadline(nodes_);
  const bool runs = round().phase() == Round::Phase::sealed && !over() && !is_deposed();
  const auto due = hangs_.next_deadline(runs);
  return due && (!soonest || *due < *soonest) ? due : soonest;
}

// If several nodes fall silent at once, as after a partition, all are removed before anything
// follows. Otherwise a round could start between two of them, only to be broken at once.
void Job::give_up_silent(TimePoint now, Actions& actions) {
  const auto silent = nodes_.round().leases().expire(now);
  if (silent.empty()) return;
  const std::string why = fmt::format("no response for {} s", in_seconds(lease()));
  for (const Leases::Expired& each : silent) lose(now, each, why, actions);
  rounds_.update_phase(now, nodes_, actions);
  rounds_.consider_lost_store(now, nodes_, actions);
  rounds_.consider_sealing(now, nodes_, actions);
}

// The lease expired, and with it the agent's own: the agent has killed its workers. Its messages
// are ignored from here on. The caller handles the consequences.
void Job::lose(TimePoint now, const Leases::Expired& expired, const std::string& why,
               Actions& actions) {
  Round& round = nodes_.round();
  const LinkId link = expired.holder;
  const Member* found = round.find(link);
  // The loss of another node at the same moment has broken the round, which removed this one.
  if (found == nullptr) return;
  const Member member = *found;
  if (over() && !member.connected) return round.leave(link);
  const bool has_done_its_part =
      member.state == State::succeeded && round.phase() == Round::Phase::sealed && !over();
  if (has_done_its_part) {
    // It has no workers left, and no node waits for it. It keeps its place until the round is over,
    // and learns the result when it reconnects.
    actions.emplace_back(coordinator::Note{fmt::format(
        "{} cannot be reached: {}; all of its workers had exited with 0", name_of(member), why)});
    if (member.connected) actions.emplace_back(coordinator::HangUp{link, why});
    if (member.connected) round.set_broken(link, expired.heard);
    round.leases().forget(link);
    return;
  }
  if (!over()) hangs_.left(now, link, round, actions);
  actions.emplace_back(coordinator::Note{
      .line = fmt::format("{} is lost: {}", name_of(member), why), .level = LogLevel::warning});
  actions.emplace_back(change_of(member, NodeChange::Kind::lost, why));
  if (member.connected) actions.emplace_back(coordinator::HangUp{link, why});
  round.leave(link);
  if (over()) return;
  rounds_.lost(now, member, member.broke_at.value_or(expired.heard), nodes_, actions);
}

// --- orders --------------------------------------------------------------------------------------

CommandResult Job::command(TimePoint now, const OperatorCommand& command, Actions& actions) {
  const TimeKept kept{*this, now};
  rounds_.record_changed();
  const auto leads_until = leadership().leads_until();
  if (leads_until && *leads_until <= now) rounds_.check_lease(now, nodes_, actions);
  if (is_deposed()) {
    return {Kind::not_now,
            "this coordinator lost contact with the nodes; a standby may be the leader by now"};
  }
  if (leadership().transfer_until()) {
    return {Kind::not_now, "leadership of this job is being transferred; retry in a moment"};
  }
  if (const auto& finish = rounds_.finish()) {
    return {Kind::not_now, fmt::format("job \"{}\" is over: {}", terms().id, finish->reason)};
  }
  switch (command.kind) {
    case OperatorCommand::Kind::stop:
      return stop(now, command, actions);
    case OperatorCommand::Kind::restart:
      return restart(now, command, actions);
    case OperatorCommand::Kind::save:
      return save(now, command.signal, actions);
    case OperatorCommand::Kind::capture:
      return capture(now, command, actions);
    case OperatorCommand::Kind::drain:
      return drain(now, command, actions);
    case OperatorCommand::Kind::exclude:
      return exclude(now, command, actions);
    case OperatorCommand::Kind::include:
      return include(now, command);
    case OperatorCommand::Kind::upgrade:
      return upgrade(now, command, actions);
    case OperatorCommand::Kind::forget:
    case OperatorCommand::Kind::handover:  // not for a job but for its coordinator
      break;
  }
  return {Kind::not_now, fmt::format("job \"{}\" is not over; stop it first", terms().id)};
}

CommandResult Job::stop(TimePoint now, const OperatorCommand& command, Actions& actions) {
  if (rounds_.round_end().stop) {
    return {Kind::not_now, fmt::format("job \"{}\" is already stopping: {}", terms().id,
                                       rounds_.round_end().why_no_other)};
  }
  const std::string says = told_by(command, "stopped the job");
  if (round().phase() == Round::Phase::gathering) {
    rounds_.end({.exit_code = 128 + SIGTERM, .reason = says}, now, nodes_, actions);
    return {Kind::done, fmt::format("job \"{}\" is over; no worker ran", terms().id)};
  }
  rounds_.stop(now, says, nodes_, actions);
  const std::size_t nodes = round().seated();
  rounds_.update_phase(now, nodes_, actions);
  return {Kind::done, fmt::format("job \"{}\" is stopping its workers on {}", terms().id,
                                  node_count_text(nodes))};
}

// Polite, as for a newcomer: nothing has failed, so no restart is used.
CommandResult Job::restart(TimePoint now, const OperatorCommand& command, Actions& actions) {
  if (round().phase() == Round::Phase::draining) {
    return {Kind::not_now, fmt::format("round {} is already stopping: {}", round().number().value,
                                       rounds_.round_end().reason)};
  }
  if (round().phase() == Round::Phase::gathering) {
    return {Kind::not_now, "no running round to restart: " + waits_for(now)};
  }
  rounds_.break_politely(now, told_by(command, "restarted the job"), nodes_, actions,
                         /*is_ordered=*/true);
  rounds_.update_phase(now, nodes_, actions);
  return {Kind::done,
          fmt::format(
              "round {} is stopping, and the next one follows; this does not count as a restart",
              round().number().value)};
}

CommandResult Job::save(TimePoint now, int signal, Actions& actions) {
  if (const auto objection = objection_to_signal(signal)) return {Kind::malformed, *objection};
  if (round().phase() != Round::Phase::sealed) {
    return {Kind::not_now, "no workers are running: " + waits_for(now)};
  }
  // A node with an inaccurate clock offset signals a little later than the others, and keeps only
  // one order.
  const bool is_another = save_ && save_->round == round().number();
  if (is_another && now < save_->due + bounds::save_lead) {
    return {Kind::not_now, fmt::format("a save was requested a moment ago; retry in "
                                       "{:.1f} s",
                                       in_seconds(save_->due + bounds::save_lead - now))};
  }
  // If some ranks miss a save, the others wait for them or the checkpoint is incomplete.
  if (round().away() > 0) {
    return {Kind::not_now, fmt::format("lost contact with {}, and a save needs all ranks; retry "
                                       "when all nodes have reconnected",
                                       round().who_is_away())};
  }
  const TimePoint due = now + bounds::save_lead;
  save_ = {round().number(), due};
  int workers = 0;
  for (const auto& [link, member] : round().members()) {
    if (member->state != State::running) continue;
    // The agent in the coordinator's own process shares its clock.
    const auto by_own = std::chrono::duration_cast<link::AgentTime>(due.time_since_epoch());
    const auto at =
        member->local ? by_own : member->clock.by_agent(due).value_or(link::AgentTime{});
    actions.emplace_back(coordinator::Say{link, link::Save{round().number(), signal, at}});
    workers += member->join.local_world_size;
  }
  return {Kind::done, fmt::format("sending {} to the {} of round {} in {} s; workers without a "
                                  "handler for it are skipped",
                                  signal_name(signal),
                                  workers == 1 ? "worker" : fmt::format("{} workers", workers),
                                  round().number().value, in_seconds(bounds::save_lead))};
}

CommandResult Job::capture(TimePoint now, const OperatorCommand& command, Actions& actions) {
  if (round().phase() != Round::Phase::sealed) {
    return {Kind::not_now, "no workers are running: " + waits_for(now)};
  }
  const auto number = hangs_.capture(now, round(), command.native, actions);
  const int workers = round().world_size();
  return {Kind::done,
          fmt::format("capturing the stacks of {} worker{} of round {} (capture {})", workers,
                      workers == 1 ? "" : "s", round().number().value, number)};
}

void Job::succeeded(TimePoint now, LinkId link, Actions& actions) {
  rounds_.succeeded(now, link, nodes_, actions);
  if (round().phase() == Round::Phase::sealed) hangs_.succeeded(now, round());
}

void Job::noticed(TimePoint now, const Member& member, const std::string& notice,
                  Actions& actions) {
  const std::string what = fmt::format("preemption notice from {} ({})", name_of(member), notice);
  const auto outcome = save(now, SIGUSR1, actions);
  actions.emplace_back(coordinator::Note{
      fmt::format("{}: {}{}", what, outcome.is_done() ? "" : "no save: ", outcome.sentence)});
}

CommandResult Job::drain(TimePoint now, const OperatorCommand& command, Actions& actions) {
  const auto links = nodes_.nodes_called(command.whom);
  if (links.empty()) {
    return {Kind::unknown, fmt::format("no node of job \"{}\" has the rank, the host name or the "
                                       "address \"{}\"; its nodes are {}",
                                       terms().id, command.whom, round().who_is_here())};
  }
  if (auto objection = objection_to_dismiss(links)) return *std::move(objection);
  const std::string who = name_of(*round().find(links.front()));
  const std::string whom =
      links.size() == 1 ? who
                        : fmt::format("{} of {}", node_count_text(links.size()), command.whom);
  dismiss(now, links, told_by(command, "drained " + whom), actions);
  return {Kind::done, fmt::format("{} {} job \"{}\"", whom, links.size() == 1 ? "leaves" : "leave",
                                  terms().id)};
}

std::optional<CommandResult> Job::objection_to_exclude(const std::string& host) const {
  if (over()) return std::nullopt;
  const auto links = nodes_.nodes_of_host(host);
  return links.empty() ? std::nullopt : objection_to_dismiss(links);
}

CommandResult Job::exclude(TimePoint now, const OperatorCommand& command, Actions& actions) {
  if (auto objection = objection_to_exclude(command.whom)) return *std::move(objection);
  const auto until =
      command.length > Duration{} ? std::optional(now + command.length) : std::nullopt;
  const std::string why = told_by(command, "excluded " + command.whom);
  if (const auto done = nodes_.exclusions().exclude(now, command.whom, until, why); !done) {
    return {Kind::not_now, done.error().reason};
  }
  const auto links = nodes_.nodes_of_host(command.whom);
  if (!links.empty()) dismiss(now, links, why, actions);
  const std::string length = until ? fmt::format("for {} s", in_seconds(command.length))
                                   : std::string("until the job is over");
  const std::string who = links.empty()
                              ? "no node is on this host"
                              : fmt::format("{} on this host {}", node_count_text(links.size()),
                                            links.size() == 1 ? "leaves" : "leave");
  return {Kind::done, fmt::format("{} is excluded from job \"{}\" {}; {}", command.whom, terms().id,
                                  length, who)};
}

// One node at a time: if the new program is of no use, the others still run the old one.
CommandResult Job::upgrade(TimePoint now, const OperatorCommand& command, Actions& actions) {
  const auto links = nodes_.nodes_called(command.whom);
  if (links.size() != 1) {
    return {Kind::unknown,
            fmt::format("{} of job \"{}\" has the rank, the host name or the address "
                        "\"{}\"; its nodes are {}",
                        links.empty() ? "no node" : "more than one node", terms().id, command.whom,
                        round().who_is_here())};
  }
  const Member& member = *round().find(links.front());
  if (!member.connected) {
    return {Kind::not_now, fmt::format("{} is not connected; retry", name_of(member))};
  }
  if (!member.join.upgrades) {
    return {Kind::not_now,
            fmt::format("{} runs a version of cpprun that cannot be upgraded while its workers run",
                        name_of(member))};
  }
  const auto since = std::chrono::floor<std::chrono::microseconds>(now.time_since_epoch());
  const link::Upgrade asked{static_cast<std::uint64_t>(since.count())};
  nodes_.round().ask_upgrade(links.front(), asked.number);
  actions.emplace_back(coordinator::Say{links.front(), asked});
  return {Kind::done, fmt::format("asked {} to upgrade its agent", name_of(member))};
}

CommandResult Job::include(TimePoint now, const OperatorCommand& command) {
  Exclusions& exclusions = nodes_.exclusions();
  if (exclusions.include(now, command.whom)) {
    return {Kind::done,
            fmt::format("nodes of {} may join job \"{}\" again", command.whom, terms().id)};
  }
  const std::string others = exclusions.list(now);
  return {Kind::unknown,
          fmt::format("{} is not excluded from job \"{}\"{}", command.whom, terms().id,
                      others.empty() ? std::string("; no host is excluded")
                                     : "; excluded hosts: " + others)};
}

std::optional<CommandResult> Job::objection_to_dismiss(const std::vector<LinkId>& links) const {
  auto objection = rounds_.objection_to_evict(links, nodes_);
  if (!objection) return std::nullopt;
  return CommandResult{Kind::not_now, *std::move(objection)};
}

// These nodes get no other seat. They go as soon as none of the round's workers is alive there.
void Job::dismiss(TimePoint now, const std::vector<LinkId>& links, const std::string& why,
                  Actions& actions) {
  const auto evicted = nodes_.evict(links, why);
  const bool breaks = std::ranges::any_of(
      evicted, [this](LinkId link) { return round().find(link)->has_workers(); });
  if (breaks && round().phase() == Round::Phase::sealed) {
    rounds_.break_politely(now, why, nodes_, actions, /*is_ordered=*/true);
  }
  for (const LinkId link : links) rounds_.let_go(link, nodes_, actions);
  rounds_.update_phase(now, nodes_, actions);
  rounds_.consider_sealing(now, nodes_, actions);
}

}  // namespace cpprun
