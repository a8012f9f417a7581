// SPDX-License-Identifier: BSD-3-Clause
// What the judge learns of each decision of a coordinator, before any of it is performed.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "tests/sim/coordinator_host.h"

namespace cpprun::sim {

// Judges a message to a node.
void CoordinatorHost::judge_say(int node, const coordinator::Say& say) {
  const int job = universe_.scenario.job_of(node);
  judge_message(say.message);
  universe_.judge.node_receives(node, say.message);
  if (const auto* sealed = std::get_if<link::Sealed>(&say.message)) {
    judge_seal(job, *sealed);
    universe_.judge.seat_received(node, *sealed);
  }
  const auto* finish = std::get_if<link::Finish>(&say.message);
  if (finish != nullptr && !is_of_another_job()) {
    universe_.judge.coordinator_finishes(job, *finish);
  }
  if (const auto* drain = std::get_if<link::Drain>(&say.message)) {
    universe_.judge.must(!universe_.scenario.stores || !universe_.scenario.daemon || is_of_set() ||
                             !drain->reason.ends_with("the store of the round was lost"),
                         "a round is broken for a store that was kept");
    universe_.judge.coordinator_breaks(job, *drain);
  }
  if (const auto* restart = std::get_if<link::RestartWorker>(&say.message)) {
    universe_.judge.coordinator_restarts_worker(node, *restart);
  }
  if (std::holds_alternative<link::Dismissed>(say.message)) {
    universe_.judge.coordinator_dismisses(node);
  }
  if (const auto* refused = std::get_if<link::Refused>(&say.message)) {
    const bool has_another = std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& each) {
      return each.second == node && each.first != say.link;
    });
    // A forgotten job cannot be reported, even if others may not have forgotten it yet.
    const bool has_forgotten = forgotten_.contains(universe_.scenario.job_of(node));
    if (!has_forgotten) {
      universe_.judge.coordinator_refuses(node, refused->reason, has_another);
    }
  }
}

// A master that restarts while there is another leader, and has not been found by it yet, hosts no
// job: its end is not the end of the job.
bool CoordinatorHost::is_of_another_job() {
  const Job* const job = coordinator_.machine().find(job_id(0));
  return hooks_.is_led && hooks_.is_led() && job != nullptr && job->steps() == 0;
}

// A coordinator is silent once another one of a later epoch has sent something.
void CoordinatorHost::judge_message(const link::Message& message) {
  const auto own = is_of_set() ? epoch() : std::nullopt;
  if (!own || std::holds_alternative<link::NotLeading>(message)) return;
  universe_.judge.must(
      *own >= universe_.spoken_epoch,
      fmt::format("the leader of epoch {} sends a message after the leader of epoch {}", *own,
                  universe_.spoken_epoch));
  universe_.spoken_epoch = std::max(universe_.spoken_epoch, *own);
}

// A store admits only the machines of its round, whatever a client claims.
void CoordinatorHost::judge_admission(const Coordinator::Actions& actions) {
  // With several cpprunds, the seats are known only when they are announced.
  if (is_of_set()) return;
  for (const coordinator::Action& action : actions) {
    const auto* reset = std::get_if<coordinator::ResetStore>(&action);
    if (reset == nullptr) continue;
    const auto job = job_number(reset->job);
    const Job* const its = coordinator_.machine().find(reset->job);
    const bool is_deposed = its != nullptr && its->is_deposed();
    for (int node = 0; node < universe_.scenario.nodes(); ++node) {
      const bool is_admitted =
          coordinator_.machine().admit(reset->job, address_of(node)).has_value();
      const bool hosts = node == host_node() && !universe_.scenario.daemon && !is_deposed;
      const bool is_seated = job && universe_.judge.is_seated(*job, node) && !is_deposed;
      universe_.judge.must(is_admitted == is_seated || hosts,
                           fmt::format("the store of {} admits node {}: {}, and its seat: {}",
                                       reset->job, node, is_admitted, is_seated));
    }
  }
}

void CoordinatorHost::judge_notes(const Coordinator::Actions& actions) {
  for (const coordinator::Action& action : actions) {
    if (const auto* change = std::get_if<coordinator::NodeChange>(&action)) {
      universe_.judge.coordinator_notes(*change);
    }
    const auto* answered = std::get_if<coordinator::Answered>(&action);
    if (answered == nullptr || !is_in_force() || !answered->outcome.is_done()) continue;
    universe_.judge.command_is_decided(answered->command);
  }
}

// The answer comes after everything that was decided before, as in CoordinatorServer.
void CoordinatorHost::judge_command(const coordinator::Answered& answered) {
  if (!is_in_force() || !answered.outcome.is_done()) return;
  std::set<int> known;
  for (int job = 0; job < static_cast<int>(universe_.scenario.jobs.size()); ++job) {
    if (coordinator_.machine().knows(job_id(job))) known.insert(job);
  }
  const TimePoint at = universe_.time.now();
  if (held_.hold(coordinator::Action{answered})) ++held_count_;
  commands_.emplace_back(held_count_, [this, answered, known, at](bool is_answered) {
    universe_.judge.command_is_done(answered.command, answered.outcome, at, known, is_answered);
  });
  judge_commands_behind(said_count_, is_heard());
}

// `is_answered`: the operator receives the answers of these commands.
void CoordinatorHost::judge_commands_behind(std::uint64_t words, bool is_answered) {
  while (!commands_.empty() && commands_.front().first <= words) {
    const auto judge = std::move(commands_.front().second);
    commands_.pop_front();
    judge(is_answered);
  }
}

void CoordinatorHost::judge_unidentified() {
  if (!coordinator_.running()) return;
  for (std::size_t job = 0; job < universe_.scenario.jobs.size(); ++job) {
    for (const std::string& address : unidentified_addresses_) {
      const bool is_admitted =
          coordinator_.machine().admit(job_id(static_cast<int>(job)), address).has_value();
      universe_.judge.must(
          !is_admitted, fmt::format("the store of job {} admits a stranger at {}", job, address));
    }
  }
}

void CoordinatorHost::judge_seals(const Coordinator::Actions& actions) {
  std::map<std::pair<int, RoundNumber>, Judge::Seats> by_round;
  std::set<std::string> begins;
  for (const coordinator::Action& action : actions) {
    const auto* reset = std::get_if<coordinator::ResetStore>(&action);
    if (reset != nullptr) begins.insert(reset->job);
  }
  for (const coordinator::Action& action : actions) {
    const auto* say = std::get_if<coordinator::Say>(&action);
    const auto* sealed = say == nullptr ? nullptr : std::get_if<link::Sealed>(&say->message);
    if (sealed == nullptr) continue;
    const int node = node_of(say->link);
    if (node < 0) continue;
    const int job = universe_.scenario.job_of(node);
    // Otherwise the seal is repeated for a node that has missed it.
    if (begins.contains(job_id(job))) by_round[{job, sealed->round}].emplace_back(node, *sealed);
  }
  for (const coordinator::Action& action : actions) {
    const auto* say = std::get_if<coordinator::Say>(&action);
    const auto* drain = say == nullptr ? nullptr : std::get_if<link::Drain>(&say->message);
    const int node = drain == nullptr ? -1 : node_of(say->link);
    if (node < 0) continue;
    // With several cpprunds, the next leader handles all waiting nodes at once; and a node that
    // leaves may say so right after its join.
    universe_.judge.must(
        is_of_set() || drain->reason.find(" leaves: ") != std::string::npos ||
            !by_round.contains({universe_.scenario.job_of(node), drain->round}),
        fmt::format("round {} was sealed and broken in one breath", drain->round.value));
  }
  for (const auto& [which, seats] : by_round) {
    const int job = which.first;
    universe_.trace.line(universe_.time.now(), "coordinator seals round {} of job {} for {} nodes",
                         seats.front().second.round.value, job, seats.size());
    if (is_of_set()) {
      universe_.decided_seats[{job, which.second.value, epoch().value_or(0)}] = seats;
      continue;
    }
    universe_.judge.coordinator_seals(job, seats);
  }
}

// With several cpprunds, a decision is announced when it can no longer be lost, possibly by another
// leader: a round is sealed when the first of its nodes learns of it.
void CoordinatorHost::judge_seal(int job, const link::Sealed& sealed) {
  if (!is_of_set() || universe_.judge.sealed_round(job) == round_of(sealed)) return;
  // The seal belongs to another job of that name.
  if (universe_.judge.sealed_round(job).store_port != sealed.store_port) {
    if (forgotten_.erase(job) != 0) universe_.judge.coordinator_forgets(job);
  }
  // The last decision about a round of that number before this one.
  const auto after =
      universe_.decided_seats.upper_bound({job, sealed.round.value, epoch().value_or(0)});
  if (after == universe_.decided_seats.begin()) return;
  const auto& [which, seats] = *std::prev(after);
  if (std::get<0>(which) != job || std::get<1>(which) != sealed.round.value) {
    universe_.judge.must(false, fmt::format("round {} was never sealed", sealed.round.value));
    return;
  }
  universe_.judge.coordinator_seals(job, seats);
}

// The accounting has every node-second exactly once; counted here from the nodes of the round.
void CoordinatorHost::judge_time() {
  for (std::size_t number = 0; number < universe_.scenario.jobs.size(); ++number) {
    const Job* const job = coordinator_.machine().find(job_id(static_cast<int>(number)));
    NodesSeen& seen = nodes_seen_[number];
    // A later job of that name starts from zero.
    if (job == nullptr) seen = {.is_of_another = seen.is_of_another};
    if (job == nullptr) continue;
    if (std::exchange(seen.is_of_another, false)) {
      seen = {.time = sum_of(job->rounds().time().told(now()).nodes)};
    }
    const NodeDuration reading = std::chrono::floor<NodeDuration>(now().time_since_epoch());
    const auto nodes = static_cast<NodeDuration::rep>(seen.nodes);
    seen.time += nodes * std::max(reading - seen.at.value_or(reading), NodeDuration{});
    seen.at = std::max(reading, seen.at.value_or(reading));
    seen.nodes = job->over() || job->is_deposed() ? 0 : job->round().size();
    if (job->is_deposed()) continue;
    if (job->round().phase() == Round::Phase::sealed && !job->over()) continue;
    const NodeDuration booked = sum_of(job->rounds().time().told(now()).nodes);
    universe_.judge.must(
        booked == seen.time,
        fmt::format("the ledger of job {} has {} us of its nodes' time, and it was "
                    "{} us",
                    number, booked.count(), seen.time.count()));
  }
}

}  // namespace cpprun::sim
