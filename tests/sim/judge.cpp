// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/workers/bounds.h"
#include "proto/link/bounds.h"
#include "proto/link/codec.h"
#include "rendezvous/client/bounds.h"
#include "rendezvous/job/bounds.h"

namespace cpprun::sim {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t round_bytes_max = 512;  // per agent, round and direction (design decision 4)
constexpr Duration reaction = 2s;             // of steps that take no time by themselves

}  // namespace

Judge::Judge(const Scenario& scenario, Timeline& time) : scenario_(scenario), time_(time) {
  jobs_.resize(scenario.jobs.size());
  nodes_.resize(index(scenario.nodes()));
  for (JobRecord& job : jobs_) job.seated.resize(nodes_.size());
  tells_story_ = scenario.has_unidentified || has({FaultKind::unidentified, FaultKind::liar});
}

void Judge::node_receives(int node, const link::Message& message) {
  if (!tells_story_) return;
  if (story_ends_ && *story_ends_ < time_.now()) return;
  link::Message received = message;
  // The free port depends on the other connections.
  if (auto* sealed = std::get_if<link::Sealed>(&received)) sealed->store_port = 1;
  story_ += fmt::format("{:15} node {}: {}\n", time_.now().time_since_epoch() / 1us, node,
                        link::encode(received).substr(4));
}

void Judge::must(bool holds, const std::string& sentence) {
  if (!holds && !verdict_) verdict_ = sentence;
}

bool Judge::has(std::initializer_list<FaultKind> kinds) const {
  return std::any_of(scenario_.faults.begin(), scenario_.faults.end(), [&](const Fault& fault) {
    return std::find(kinds.begin(), kinds.end(), fault.kind) != kinds.end();
  });
}

bool Judge::has_only(std::initializer_list<FaultKind> kinds) const {
  return std::all_of(scenario_.faults.begin(), scenario_.faults.end(), [&](const Fault& fault) {
    // They must not change anything.
    if (fault.kind == FaultKind::unidentified || fault.kind == FaultKind::liar) return true;
    return std::find(kinds.begin(), kinds.end(), fault.kind) != kinds.end();
  });
}

// --- the workers ---------------------------------------------------------------------------------

void Judge::worker_started(int node, RoundId round, Rank rank) {
  JobRecord& job = job_of(node);
  if (round != job.round) {
    // The seal arrived late, and another round is sealed by now, perhaps by another master.
    must(!job.seated[index(node)],
         fmt::format("node {} starts workers of round {} and has a seat in round {}", node,
                     round.number.value, job.round.number.value));
    fence(node);
    return;
  }
  must(job.seated[index(node)], fmt::format("node {} has no seat and starts workers", node));
  const auto at = index(rank.value);
  if (at >= job.alive.size()) {
    must(false, fmt::format("rank {} is outside the world of {}", rank.value, job.world));
    return;
  }
  must(++job.alive[at] == 1, fmt::format("two workers have rank {} at once", rank.value));
}

void Judge::worker_cannot_start(int node, RoundId round, Rank rank) {
  JobRecord& job = job_of(node);
  if (round != job.round) return;
  job.deaths.push_back({time_.now(), rank, node, {false, 127}});
  ++nodes_[index(node)].bad_ends;
}

void Judge::worker_ended(const WorkerEnd& end) {
  JobRecord& job = job_of(end.node);
  if (end.round != job.round) return;
  const auto at = index(end.rank.value);
  if (job.seated[index(end.node)] && at < job.alive.size()) --job.alive[at];
  const bool is_fence = end.cause == CauseOfDeath::asked && !job.is_broken;
  if (is_fence) nodes_[index(end.node)].was_fenced = true;
  if (end.cause == CauseOfDeath::done) {
    must_go_on_ = must_go_on_ && takeovers_ > 0;  // A node that has done its part has no vote.
    ++job.ended_well;
  } else if (end.cause == CauseOfDeath::injected || end.cause == CauseOfDeath::neighbour) {
    job.deaths.push_back({time_.now(), end.rank, end.node, end.status});
    ++nodes_[index(end.node)].bad_ends;
  }
}

void Judge::worker_left(int node, RoundId round, Rank rank) {
  JobRecord& job = job_of(node);
  const auto at = index(rank.value);
  if (round == job.round && job.seated[index(node)] && at < job.alive.size()) --job.alive[at];
}

// A fast clock makes the lease a little shorter.
bool Judge::is_a_lease(Duration silence) const {
  return silence * 100 >= scenario_.lease() * 99;
}

void Judge::coordinator_heard(int node) {
  NodeRecord& record = nodes_[index(node)];
  if (is_a_lease(time_.now() - record.heard)) record.was_silent = true;
  record.heard = time_.now();
}

void Judge::coordinator_hears_join(int node) {
  NodeRecord& record = nodes_[index(node)];
  if (!record.asked_at) record.asked_at = time_.now();
  record.has_joined = true;
}

// A latecomer exits as the job did; only a node that may still have workers is rejected.
void Judge::coordinator_refuses(int node, const std::string& why, bool has_another) {
  const JobRecord& job = job_of(node);
  const bool knows_the_end = job.finish && !job.forgotten;
  must(!knows_the_end || nodes_[index(node)].had_a_seat,
       fmt::format("node {} came late to a job that is over, and was refused", node));
  must(has_another || !why.starts_with("node rank "),
       fmt::format("node {} was refused because of a node that is gone", node));
}

void Judge::coordinator_hears_success(int node, RoundNumber round) {
  JobRecord& job = job_of(node);
  if (job.round.number == round && job.seated[index(node)]) job.a_node_is_done = true;
}

// A node that has done its part would have to do it again. A drain that is repeated on a new link
// breaks nothing.
void Judge::coordinator_breaks(int job, const link::Drain& drain) {
  JobRecord& record = jobs_[index(job)];
  if (record.round.number != drain.round || std::exchange(record.is_broken, true)) return;
  const bool for_newcomers =
      drain.reason.ends_with(" node joined") || drain.reason.ends_with(" nodes joined");
  must(!must_turn_ || for_newcomers, "a cpprund was lost, and a round breaks: " + drain.reason);
  // One of several cpprunds may announce a decision later.
  must(!for_newcomers || !record.a_node_is_done || scenario_.set,
       fmt::format("round {} was broken for newcomers, and a node had finished its work in it",
                   drain.round.value));
}

// After a suspension, unread messages must be read first, except those of the last moment.
void Judge::coordinator_gives_up(int node, TimePoint arrived) {
  Duration silence = time_.now() - arrived;
  for (const Fault& fault : scenario_.faults) {
    const TimePoint at{fault.at};
    if (fault.kind != FaultKind::all_suspended || at < arrived || at > time_.now()) continue;
    // By the coordinator's clock. Except after a short suspension, it has to wait for messages
    // after it woke.
    silence += fault.lasts;
    must(fault.lasts <= bounds::coordinator_nap ||
             time_.now() - at >= bounds::coordinator_nap - 2 * bounds::coordinator_blink,
         fmt::format("node {} was given up when all had just been suspended", node));
  }
  must(is_a_lease(silence) || silence <= 2 * bounds::coordinator_blink,
       fmt::format("node {} was given up as silent, {} ms after its last word had arrived", node,
                   silence / 1ms));
}

// --- rounds --------------------------------------------------------------------------------------

// A coordinator that knows nothing of earlier rounds: workers that still exist belong to no job.
void Judge::coordinator_begins(const std::function<bool(int job)>& knows, bool knows_commands) {
  for (std::size_t job = 0; job < jobs_.size(); ++job) {
    if (!knows(static_cast<int>(job))) coordinator_forgets(static_cast<int>(job));
    forget_commands(static_cast<int>(job), true, knows_commands);
  }
}

void Judge::coordinator_forgets(int job) {
  JobRecord& record = jobs_[index(job)];
  record.forgotten = true;
  forget_commands(job, false, false);
  if (record.finish && !record.forgotten_at) record.forgotten_at = time_.now();
  record.round = {};
  record.seated.assign(nodes_.size(), false);
  for (int node = 0; node < scenario_.nodes(); ++node) {
    if (scenario_.job_of(node) == job && witness_.any_alive(node)) fence(node);
  }
}

void Judge::restart_job(JobRecord& job) {
  const auto forgotten_at = job.forgotten_at;
  const bool has_ended_with_0 = job.has_ended_with_0;
  auto earlier_codes = std::move(job.earlier_codes);
  if (job.finish) earlier_codes.insert(job.finish->exit_code);
  job = JobRecord{};
  job.forgotten_at = forgotten_at;
  job.has_ended_with_0 = has_ended_with_0;
  job.earlier_codes = std::move(earlier_codes);
  job.seated.resize(nodes_.size());
}

// --- fenced workers ------------------------------------------------------------------------------

Duration Judge::death_takes_max() const {
  return scenario_.lease() * 2 + scenario_.grace + 2 * bounds::kill_timeout +
         bounds::dial_attempt_max + reaction;
}

void Judge::fence(int node) {
  const int number = ++nodes_[index(node)].fence;
  time_.later(death_takes_max(), [this, node, number] { audit(node, number); });
}

// Fenced workers cannot stay: their agent ends them as soon as it can act.
void Judge::audit(int node, int number) {
  NodeRecord& record = nodes_[index(node)];
  if (record.fence != number || job_of(node).seated[index(node)]) return;
  if (witness_.stopped(node)) return;  // Checked again when it resumes.
  if (record.went_on + death_takes_max() > time_.now()) {
    time_.at(record.went_on + death_takes_max(), [this, node, number] { audit(node, number); });
    return;
  }
  must(!witness_.any_alive_but_stuck(node),
       fmt::format("workers of node {}, which has lost its seat, are not ended", node));
}

void Judge::agent_went_on(int node) {
  NodeRecord& record = nodes_[index(node)];
  record.went_on = time_.now();
  if (record.fence > 0) fence(node);
  if (!record.drains_since) return;
  time_.later(draining_takes_max(),
              [this, node, since = *record.drains_since] { audit_drain(node, since); });
}

// --- the agents ----------------------------------------------------------------------------------

void Judge::agent_begins(int node) {
  NodeRecord& record = nodes_[index(node)];
  record.exit.reset();
  record.gone = false;
  record.began = time_.now();
  record.has_joined = record.must_leave = record.was_dismissed = false;
  record.drained_in = {};
  record.drains_since.reset();
}

void Judge::agent_drains(int node) {
  NodeRecord& record = nodes_[index(node)];
  if (record.drains_since) return;
  record.drains_since = time_.now();
  time_.later(draining_takes_max(), [this, node, now = time_.now()] { audit_drain(node, now); });
}

void Judge::agent_asks(int node) {
  if (!witness_.any_alive(node)) nodes_[index(node)].drains_since.reset();
}

Duration Judge::draining_takes_max() const {
  return scenario_.grace + 2 * bounds::kill_timeout + reaction;
}

// For the nodes that have lost their seat and never report that they have drained.
void Judge::audit_drain(int node, TimePoint since) {
  const NodeRecord& record = nodes_[index(node)];
  if (record.drains_since != since || record.gone || witness_.stopped(node)) return;
  const TimePoint over = std::max(since, record.went_on) + draining_takes_max();
  if (over > time_.now()) {
    time_.at(over, [this, node, since] { audit_drain(node, since); });
    return;
  }
  must(!witness_.any_alive_but_stuck(node), fmt::format("node {} does not end its workers", node));
}

void Judge::agent_drained(int node) {
  must(!witness_.any_in_round(node), fmt::format("node {} says it has drained, and has not", node));
  check_drain_time(node);
}

void Judge::check_drain_time(int node) {
  NodeRecord& record = nodes_[index(node)];
  if (!record.drains_since) return;
  const TimePoint since = std::max(*record.drains_since, record.went_on);
  must(time_.now() - since <= draining_takes_max(),
       fmt::format("node {} took too long to drain", node));
  record.drains_since.reset();
}

void Judge::counted(int node, int to, const link::Message& message, std::size_t bytes) {
  must(bytes <= bounds::link_frame_bytes_max + 4, "a frame is longer than its bound");
  const bool apart = std::holds_alternative<link::Heartbeat>(message) ||
                     std::holds_alternative<link::Waiting>(message) ||
                     std::holds_alternative<link::Failed>(message) ||
                     std::holds_alternative<link::Refused>(message) ||
                     std::holds_alternative<link::Save>(message) ||
                     std::holds_alternative<link::Capture>(message) ||
                     std::holds_alternative<link::Captured>(message) ||
                     std::holds_alternative<link::Verdict>(message) ||
                     std::holds_alternative<link::RestartWorker>(message) ||
                     std::holds_alternative<link::Dismissed>(message) ||
                     std::holds_alternative<link::Stands>(message) ||
                     std::holds_alternative<link::Standby>(message) ||
                     std::holds_alternative<link::NotLeading>(message) ||
                     std::holds_alternative<link::Members>(message) ||
                     std::holds_alternative<link::Finish>(message);
  if (apart) return;
  if (const auto* sealed = std::get_if<link::Sealed>(&message); sealed && sealed->failed_before) {
    // An earlier failure is counted separately, like a failure.
    must(bytes <= bounds::round_frame_bytes_max, "a seat is longer than its bound");
    link::Sealed bare = *sealed;
    bare.failed_before.reset();
    bytes = link::encode(bare).size();
  }
  NodeRecord& record = nodes_[index(node)];
  record.bytes[to] += bytes;
  must(record.bytes[to] <= round_bytes_max * index(1 + record.links),
       fmt::format("node {} and the coordinator said {} bytes to each other in one round", node,
                   record.bytes[to]));
}

}  // namespace cpprun::sim
