// SPDX-License-Identifier: BSD-3-Clause
// The part of Judge for the end of jobs: exit codes, root causes, success.

#include <fmt/format.h>

#include <algorithm>

#include "launcher/agent/bounds.h"
#include "tests/sim/judge.h"

namespace cpprun::sim {

using namespace std::chrono_literals;

namespace {

constexpr const char* not_known = "the result of the job is unknown here";

}  // namespace

void Judge::coordinator_finishes(int job_number, const link::Finish& finish) {
  JobRecord& job = jobs_[index(job_number)];
  if (job.forgotten) restart_job(job);
  if (job.finish) {
    must(job.finish->exit_code == finish.exit_code, "nodes received different exit codes");
    return;
  }
  job.finish = finish;
  if (!scenario_.daemon && !story_ends_) story_ends_ = time_.now();
  if (finish.exit_code == 0) {
    job.has_ended_with_0 = true;
    must(job.rounds > 0 && job.ended_well >= job.world,
         fmt::format("the job ended with 0 when {} of {} workers had", job.ended_well, job.world));
    return;
  }
  if (finish.root) check_root(job, finish);
  check_stopped(job, finish);
}

// Absent if some failures may be restarted without a limit.
std::optional<int> Judge::restarts_max(const RestartRules& rules) {
  int sum = rules.max;
  for (const CauseBudget& each : rules.budgets) {
    if (!each.max) return std::nullopt;
    sum += *each.max;
  }
  const bool is_bounded = rules.free_codes.empty() && rules.window == Duration{};
  return is_bounded ? std::optional(sum) : std::nullopt;
}

// The root cause is a failure that happened, and the first one if that can be known.
void Judge::check_root(const JobRecord& job, const link::Finish& finish) {
  const link::Failure& root = *finish.root;
  const bool is_worker = root.pid == 0 || root.pid >= worker_pids_from;
  if (!is_worker) return;  // a lost node; see check_stopped
  const auto died = std::find_if(job.deaths.begin(), job.deaths.end(), [&](const Death& death) {
    return death.rank == root.rank && death.status == root.status;
  });
  if (died == job.deaths.end()) {
    must(false,
         fmt::format("rank {} is said to have failed first, and did not fail", root.rank.value));
    return;
  }
  const Death& first = job.deaths.front();
  const bool clear =
      has_only({FaultKind::worker_exits, FaultKind::spawn_fails, FaultKind::worker_hangs,
                FaultKind::worker_leaves, FaultKind::worker_crashes, FaultKind::clock_skew,
                FaultKind::clock_jump, FaultKind::node_is_late});
  // A clock offset is known as exactly as the delays to a node and back are alike; with several
  // cpprunds an answer goes to a standby and back first.
  const int ways = scenario_.set ? 3 : 1;
  must(!clear || died->at - first.at <= ways * scenario_.delay_max + 1ms,
       fmt::format("rank {} is said to have failed first, but rank {} had {} us before",
                   root.rank.value, first.rank.value, (died->at - first.at) / 1us));
  const auto job_number = static_cast<int>(&job - jobs_.data());
  const bool may_give_up = has({FaultKind::worker_crashes, FaultKind::agent_signalled}) ||
                           job.was_stopped || job.may_be_stopped ||
                           a_node_left_its_seat(job_number);
  const JobShape& shape = scenario_.jobs[index(job_number)];
  const bool is_plain =
      shape.restarts == RestartRules{.max = shape.restarts.max, .scope = shape.restarts.scope};
  must(may_give_up || !is_plain || job.restarts == shape.restarts.max,
       fmt::format("the job was given up after {} of {} restarts", job.restarts,
                   shape.restarts.max));
}

// Its timeout for missing nodes expired just when the last of them joined.
bool Judge::a_node_left_its_seat(int job) const {
  for (int node = 0; node < scenario_.nodes(); ++node) {
    const auto& exit = nodes_[index(node)].exit;
    if (scenario_.job_of(node) != job || !is_seated(job, node) || !exit) continue;
    if (exit->reason.starts_with("gave up after")) return true;
  }
  return false;
}

// Nodes may be missing for good, or it cannot be known whether another one has their votes.
bool Judge::may_wait_forever() const {
  const bool a_node_is_kept =
      has({FaultKind::worker_stuck, FaultKind::order_drain, FaultKind::order_exclude});
  const bool a_process_ends =
      has({FaultKind::agent_killed, FaultKind::agent_signalled, FaultKind::host_dies,
           FaultKind::coordinator_killed, FaultKind::coordinator_host_dies});
  // A cpprun that starts on a machine without power reaches no other node.
  const bool begins_in_the_dark = has({FaultKind::node_is_late}) &&
                                  has({FaultKind::host_dies, FaultKind::coordinator_host_dies});
  return a_node_is_kept || begins_in_the_dark || (scenario_.standby && a_process_ends);
}

// A minute after the last fault, a round is sealed if there are enough nodes and they may restart:
// no node gives up waiting for a seat.
void Judge::check_timeout(int node) {
  constexpr Duration heals_within = 60s;
  if (scenario_.join_timeout < heals_within || may_wait_forever()) return;
  const int number = scenario_.job_of(node);
  const JobShape& shape = scenario_.jobs[index(number)];
  if (jobs_[index(number)].finish || !witness_.hosted()) return;
  const TimePoint calm_since = time_.now() - heals_within;
  for (const Fault& fault : scenario_.faults) {
    if (TimePoint{fault.at + 2 * fault.lasts} > calm_since) return;
  }
  const bool a_place_is_lost =
      has({FaultKind::coordinator_killed, FaultKind::coordinator_host_dies});
  int there = 0;
  for (int each = 0; each < scenario_.nodes(); ++each) {
    const NodeRecord& record = nodes_[index(each)];
    const bool is_there = each == node || (!record.exit && !record.gone);
    const bool has_begun = record.began && *record.began <= calm_since;
    // The only cpprund that the node knows may be gone before it names the others.
    const bool may_be_lost = a_place_is_lost && scenario_.knows_one_place(each);
    if (scenario_.job_of(each) == number && is_there && has_begun && !may_be_lost) ++there;
  }
  const int needed = shape.nodes_min < shape.nodes_max ? shape.nodes_min : shape.nodes_max;
  must(there < needed, fmt::format("node {} gives up waiting for a seat, {} nodes are there, and "
                                   "for a minute nothing was in the way",
                                   node, there));
}

void Judge::agent_exits(int node, const events::JobEnded& exit) {
  if (exit.reason.starts_with("gave up after")) check_timeout(node);
  NodeRecord& record = nodes_[index(node)];
  record.exit = exit;
  must(!witness_.any_alive_but_stuck(node), fmt::format("node {} ended before its workers", node));
  check_drain_time(node);
  const JobRecord& job = job_of(node);
  if (exit.exit_code == 0 && !record.was_dismissed) {
    must(job.has_ended_with_0, fmt::format("node {} ended with 0, and the job had not", node));
  }
  // A node that was asked to leave exits with 0, and its leave reason may be the reason of the job.
  if (job.finish && !record.was_dismissed && exit.reason == job.finish->reason) {
    must(exit.exit_code == job.finish->exit_code,
         fmt::format("node {} ended with {}, the job with {}", node, exit.exit_code,
                     job.finish->exit_code));
  }
}

// Its first message arrived when the coordinator was gone or a daemon had forgotten the job.
bool Judge::met_no_coordinator(int node) {
  const NodeRecord& record = nodes_[index(node)];
  const JobRecord& job = job_of(node);
  return !record.asked_at ||
         (scenario_.daemon && job.forgotten_at && *job.forgotten_at <= *record.asked_at);
}

// A link that is reset between two rounds and returns at once costs no round.
void Judge::check_rounds() {
  const bool in_time = scenario_.delay_max <= 20ms && scenario_.lease() >= 2s;
  const bool no_other_fault =
      has_only({FaultKind::worker_exits, FaultKind::spawn_fails, FaultKind::drained_reset,
                FaultKind::clock_skew, FaultKind::clock_jump});
  if (!in_time || !no_other_fault) return;
  for (const JobRecord& job : jobs_) {
    const auto& shape = scenario_.jobs[static_cast<std::size_t>(&job - jobs_.data())];
    if (shape.restarts.scope == RestartScope::worker) continue;
    must(job.rounds == job.restarts + 1,
         fmt::format("a job with {} restarts had {} rounds, and no node came or left", job.restarts,
                     job.rounds));
  }
}

// Whether a node whose link was reset just before the answer to a heartbeat arrived receives a
// message on a new link before its own lease is over: in between are a heartbeat, the lost answer,
// and a dial and a join with their answers.
bool Judge::links_return_in_time() const {
  const Duration longest =
      scenario_.lease_interval + 6 * scenario_.delay_max + 2 * bounds::dial_pause_min;
  return longest < scenario_.lease() - scenario_.lease() / 10;
}

// A cpprund that resumes its jobs, and whose nodes return long before their leases end.
bool Judge::is_one_short_restart() const {
  if (scenario_.faults.size() != 1 || !has_only({FaultKind::coordinator_restarted})) return false;
  const Fault& fault = scenario_.faults.front();
  return fault.value % 3 != 0 && fault.lasts <= scenario_.lease() / 4 &&
         scenario_.delay_max <= 20ms && links_return_in_time();
}

void Judge::another_leads(int job, bool knows_commands) {
  ++takeovers_;
  forget_commands(job, true, knows_commands);
  JobRecord& record = jobs_[index(job)];
  record.was_stopped = record.was_stopped && record.stop_is_kept && knows_commands;
}

std::optional<int> Judge::exit_code_of(int node) const {
  const auto& exit = nodes_[index(node)].exit;
  return exit ? std::optional<int>{exit->exit_code} : std::nullopt;
}

// How all nodes must have ended if nothing prevented it.
void Judge::all_is_over() {
  const bool orderly =
      has_only({FaultKind::worker_exits, FaultKind::spawn_fails, FaultKind::worker_hangs,
                FaultKind::worker_leaves, FaultKind::worker_crashes, FaultKind::clock_skew,
                FaultKind::clock_jump, FaultKind::link_breaks});
  const bool links_hold = !has({FaultKind::link_breaks}) || links_return_in_time();
  check_rounds();
  for (int node = 0; node < scenario_.nodes(); ++node) {
    const NodeRecord& record = nodes_[index(node)];
    const JobRecord& job = job_of(node);
    must(record.exit || record.gone, fmt::format("node {} never ended", node));
    must(!witness_.any_alive_but_stuck(node), fmt::format("node {} left a worker behind", node));
    const bool late =
        std::any_of(scenario_.faults.begin(), scenario_.faults.end(), [node](const Fault& fault) {
          return fault.kind == FaultKind::node_is_late && fault.nodes.front() == node;
        });
    // A spare may come too late for the result of the job, and then there is no coordinator to ask.
    const bool unlucky = !scenario_.faults.empty() || met_no_coordinator(node);
    const bool latecomer = late || (!record.had_a_seat && unlucky);
    if (!record.exit || latecomer || record.was_dismissed) continue;
    // It was asked to exit.
    const bool was_asked_to_end = std::ranges::any_of(scenario_.faults, [node](const Fault& fault) {
      return fault.kind == FaultKind::agent_signalled &&
             std::ranges::find(fault.nodes, node) != fault.nodes.end();
    });
    must(!must_go_on_ || !record.had_a_seat || record.exit->exit_code == 0 || was_asked_to_end,
         fmt::format("the master was lost, and node {} ended with {}: {}", node,
                     record.exit->exit_code, record.exit->reason));
    must(!must_turn_ || (record.exit->exit_code == 0 && job.restarts == 0),
         fmt::format("a cpprund with a standby was lost, and node {} ended with {} "
                     "after {} restarts: {}",
                     node, record.exit->exit_code, job.restarts, record.exit->reason));
    if (is_one_short_restart()) {
      must(record.exit->exit_code == 0 && job.restarts == 0,
           fmt::format("cpprund was restarted, and node {} ended with {} after {} "
                       "restarts: {}",
                       node, record.exit->exit_code, job.restarts, record.exit->reason));
    } else if (scenario_.faults.empty() || scenario_.gentle) {
      must(record.exit->exit_code == 0 && job.restarts == 0,
           fmt::format("node {} ended with {} after {} restarts, and nothing that matters had gone "
                       "wrong: {}",
                       node, record.exit->exit_code, job.restarts, record.exit->reason));
    } else if (orderly && (links_hold || !record.was_fenced)) {
      const bool as_an_earlier = job.earlier_codes.contains(record.exit->exit_code);
      must(as_an_earlier || (job.finish && record.exit->exit_code == job.finish->exit_code),
           fmt::format("node {} ended with {}, and not as its job: {}", node,
                       record.exit->exit_code, record.exit->reason));
    }
  }
}

}  // namespace cpprun::sim
