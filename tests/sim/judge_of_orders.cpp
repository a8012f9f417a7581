// SPDX-License-Identifier: BSD-3-Clause
// The part of Judge for operator commands: a stop stops, a drained node is gone without a failure,
// an excluded host has no seat before its time, and a save reaches exactly the workers of its
// round, each once and at one time.

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "tests/sim/coordinator_host.h"
#include "tests/sim/judge.h"
#include "tests/sim/network.h"

namespace cpprun::sim {

using namespace std::chrono_literals;

namespace {

bool is_meant(const OperatorCommand& command, int node) {
  return command.whom == fmt::format("host{}", node) || command.whom == address_of(node);
}

}  // namespace

void Judge::command_is_decided(const OperatorCommand& command) {
  for (int node = 0; node < scenario_.nodes(); ++node) {
    if (!is_meant(command, node)) continue;
    NodeRecord& record = nodes_[index(node)];
    const bool sends_away = command.kind == OperatorCommand::Kind::drain ||
                            command.kind == OperatorCommand::Kind::exclude;
    if (sends_away) record.may_be_dismissed = true;
    if (command.kind == OperatorCommand::Kind::include) record.excluded_until = {};
  }
}

void Judge::command_is_done(const OperatorCommand& command, const CommandResult& outcome,
                            TimePoint at, const std::set<int>& known_jobs, bool is_answered) {
  for (int node = 0; node < scenario_.nodes(); ++node) {
    if (!is_meant(command, node)) continue;
    NodeRecord& record = nodes_[index(node)];
    if (command.kind == OperatorCommand::Kind::drain) {
      record.must_leave = record.has_joined;
      // A round that was never sealed is in no record.
      record.leave_is_kept = is_answered && job_of(node).rounds > 0;
      if (!job_of(node).is_broken) record.drained_in = job_of(node).round;
    }
    if (command.kind == OperatorCommand::Kind::include) record.excluded_until = {};
    // Without a duration it holds for the existing jobs.
    const int job = scenario_.job_of(node);
    const bool is_kept = std::ranges::find(outcome.kept_by, job_id(job)) != outcome.kept_by.end();
    const bool holds = !is_kept && (command.length > Duration{} || known_jobs.contains(job));
    if (command.kind == OperatorCommand::Kind::exclude && holds) {
      // The coordinator's clock may be a little fast.
      record.excluded_until =
          command.length > Duration{} ? at + command.length / 100 * 99 : TimePoint::max();
      record.exclusion_is_kept = is_answered && command.length > Duration{};
    }
  }
  for (std::size_t number = 0; number < jobs_.size(); ++number) {
    JobRecord& job = jobs_[number];
    if (command.job != job_id(static_cast<int>(number))) continue;
    if (command.kind == OperatorCommand::Kind::stop) {
      (is_answered ? job.was_stopped : job.may_be_stopped) = true;
      job.stop_is_kept = is_answered && job.rounds > 0;
    }
    if (command.kind != OperatorCommand::Kind::save) continue;
    // If the coordinator may not send, the round of the save is not known.
    must(!job.is_broken || !is_answered, "workers that are being ended are asked to save");
    job.saves_at.push_back(at + bounds::save_lead);
  }
}

void Judge::coordinator_notes(const coordinator::NodeChange& change) {
  for (int node = 0; node < scenario_.nodes(); ++node) {
    const bool is_lost = change.kind == coordinator::NodeChange::Kind::lost;
    if (is_lost && change.host == fmt::format("host{}", node)) ++nodes_[index(node)].bad_ends;
  }
}

void Judge::coordinator_dismisses(int node) {
  NodeRecord& record = nodes_[index(node)];
  const int failures_max =
      scenario_.jobs[index(scenario_.job_of(node))].restarts.host_limit.failures;
  const bool has_failed_often = failures_max > 0 && record.bad_ends >= failures_max;
  must(record.may_be_dismissed || has_failed_often,
       fmt::format("node {} is sent away without a command", node));
  must(!witness_.any_in_round(node), fmt::format("node {} is sent away with workers", node));
  record.was_dismissed = true;
}

void Judge::worker_saves(int node, RoundId round, Rank rank) {
  JobRecord& job = job_of(node);
  // A node that has lost its seat and does not know it yet saves for nothing.
  if (round != job.round) {
    must(!job.seated[index(node)],
         fmt::format("rank {} of round {} on node {} is asked to save in round {}", rank.value,
                     round.number.value, node, job.round.number.value));
    return;
  }
  const auto& moments = job.saves_at;
  must(!moments.empty(), fmt::format("rank {} is asked to save without a command", rank.value));
  if (moments.empty() || index(rank.value) >= job.saved.size()) return;
  must(index(++job.saved[index(rank.value)]) <= moments.size(),
       fmt::format("rank {} is asked to save more often than was wanted", rank.value));
  // The precision of the time is only checked without network faults.
  const bool in_time =
      has_only({FaultKind::worker_exits, FaultKind::spawn_fails, FaultKind::clock_jump,
                FaultKind::order_save, FaultKind::order_drain, FaultKind::order_restart});
  if (!in_time) return;
  Duration off = Duration::max();
  for (const TimePoint moment : moments) {
    const Duration each = time_.now() - moment;
    if (std::chrono::abs(each) < std::chrono::abs(off)) off = each;
  }
  // A clock offset is known within half the round trip, and an answer may wait for a standby.
  const Duration most = (scenario_.set ? 2 : 1) * scenario_.delay_max + 1ms;
  must(off <= most && -off <= most,
       fmt::format("rank {} is asked to save {} us off the moment", rank.value, off / 1us));
}

void Judge::worker_hung(int node, Rank rank, link::ExitStatus status) {
  job_of(node).deaths.push_back({time_.now(), rank, node, status});
  ++nodes_[index(node)].bad_ends;
}

void Judge::hang_found(int node, bool is_frozen) {
  must(is_frozen, fmt::format("node {} ends a round as hung, and its workers make progress", node));
}

void Judge::check_seats_of_commands(const JobRecord& job, const Seats& seats) {
  must(!job.was_stopped, "a round was sealed after the job was stopped");
  for (const auto& [node, sealed] : seats) {
    const NodeRecord& record = nodes_[index(node)];
    must(!record.must_leave, fmt::format("node {} was drained and has a seat again", node));
    must(record.excluded_until <= time_.now(),
         fmt::format("node {} is excluded and has a seat", node));
  }
}

// A failure before the stop is the root cause; a node that was asked to leave is not lost.
void Judge::check_stopped(const JobRecord& job, const link::Finish& finish) {
  must(!job.was_stopped || finish.root || finish.exit_code == 128 + SIGTERM,
       fmt::format("a job that was stopped ended with {}: {}", finish.exit_code, finish.reason));
  if (!finish.root || finish.root->cause != link::node_lost) return;
  for (int node = 0; node < scenario_.nodes(); ++node) {
    must(finish.root->host != fmt::format("host{}", node) || job.round == RoundId{} ||
             nodes_[index(node)].drained_in != job.round,
         fmt::format("node {} was drained, and is said to be lost", node));
  }
}

// A forgotten job takes its node commands with it, and a lost coordinator takes all of them. The
// next leader knows those that are stored, where that is promised.
void Judge::forget_commands(int job, bool all, bool knows_commands) {
  for (int node = 0; node < scenario_.nodes(); ++node) {
    NodeRecord& record = nodes_[index(node)];
    const bool goes_on = knows_commands && record.exclusion_is_kept;
    const bool is_its = scenario_.job_of(node) == job;
    const bool is_forgotten = all ? !goes_on : is_its && record.excluded_until == TimePoint::max();
    if (is_forgotten) record.excluded_until = {};
    const bool is_known = knows_commands && record.leave_is_kept;
    if (scenario_.job_of(node) == job && !is_known) record.must_leave = false;
  }
}

}  // namespace cpprun::sim
