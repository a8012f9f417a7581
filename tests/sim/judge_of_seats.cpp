// SPDX-License-Identifier: BSD-3-Clause
// The part of Judge for sealed rounds: their ranks, their nodes, and surviving workers of the
// previous round.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "tests/sim/judge.h"

namespace cpprun::sim {

using namespace std::chrono_literals;

void Judge::coordinator_seals(int job_number, const Seats& seats) {
  JobRecord& job = jobs_[index(job_number)];
  if (job.forgotten) restart_job(job);
  check_ranks(seats);
  check_the_old_round(job_number, seats);
  const link::Sealed& any = seats.front().second;
  must(any.round.value > job.round.number.value, "the number of the round did not grow");
  must(!job.finish, "a round was sealed after the job was over");
  check_seats_of_commands(job, seats);
  const auto most = restarts_max(scenario_.jobs[index(job_number)].restarts);
  must(!most || any.restart_count <= *most, "the restart budget was overdrawn");
  must(any.restart_count == job.restarts || any.restart_count == job.restarts + 1,
       fmt::format("the restart count went from {} to {}", job.restarts, any.restart_count));
  const bool node_counts =
      scenario_.jobs[index(job_number)].restarts.budget_for(link::node_lost) != nullptr;
  must(any.restart_count == job.restarts || !job.deaths.empty() || node_counts,
       "a restart was spent, and no worker had failed");
  job.round = round_of(any);
  job.seats = {seats.begin(), seats.end()};
  job.restarts = any.restart_count;
  ++job.rounds;
  job.world = any.world_size;
  job.alive.assign(index(any.world_size), 0);
  job.holder.clear();
  job.ended_well = 0;
  job.is_broken = job.a_node_is_done = false;
  job.saves_at.clear();
  job.saved.assign(index(any.world_size), 0);
  job.deaths.clear();
  job.attempts.clear();
  std::fill(job.seated.begin(), job.seated.end(), false);
  for (const auto& [node, sealed] : seats) {
    job.seated[index(node)] = true;
    NodeRecord& record = nodes_[index(node)];
    record.was_silent = false;
    record.had_a_seat = true;
    record.bytes[0] = record.bytes[1] = 0;
    record.links = 0;
  }
  Seats by_base = seats;
  std::sort(by_base.begin(), by_base.end(),
            [](const auto& a, const auto& b) { return a.second.base_rank < b.second.base_rank; });
  for (const auto& [node, sealed] : by_base) {
    job.holder.insert(job.holder.end(), index(scenario_.workers_of(node)), node);
  }
}

// A node that has missed its seat receives it again, perhaps from another coordinator.
void Judge::seat_received(int node, const link::Sealed& sealed) {
  const JobRecord& job = job_of(node);
  if (job.round != round_of(sealed)) return;
  const auto [first, last] = job.seats.equal_range(node);
  must(first != last,
       fmt::format("node {} receives a seat in round {}, and has none", node, sealed.round.value));
  const bool is_one_of_its = std::any_of(first, last, [&](const auto& each) {
    link::Sealed seat = each.second;
    // The neighbour may differ if another coordinator repeats the seat.
    seat.neighbour = sealed.neighbour;
    return seat == sealed;
  });
  must(first == last || is_one_of_its,
       fmt::format("node {} receives another seat in round {} than before", node,
                   sealed.round.value));
}

// Each failure is answered by one restart, which counts once. The answer may be repeated.
void Judge::coordinator_restarts_worker(int node, const link::RestartWorker& restart) {
  const int job_number = scenario_.job_of(node);
  JobRecord& job = jobs_[index(job_number)];
  const int rank = restart.rank.value;
  must(scenario_.jobs[index(job_number)].restarts.scope == RestartScope::worker,
       fmt::format("rank {} is restarted alone in a job that restarts as a whole", rank));
  if (job.round.number != restart.round) return;  // announced by a leader that was replaced since
  must(!job.finish, fmt::format("rank {} is restarted after the job was over", rank));
  must(holder_of(job_number, job.round, restart.rank) == node,
       fmt::format("node {} is to restart rank {}, which it does not have", node, rank));
  int& attempts = job.attempts[rank];
  if (restart.attempt == attempts && restart.restart_count <= job.restarts) return;  // repeated
  const auto death = std::ranges::find(job.deaths, restart.rank, &Death::rank);
  must(death != job.deaths.end(), fmt::format("rank {} is restarted and had not failed", rank));
  // A leader may be lost before its standby knows of a restart.
  const bool is_known = takeovers_ == 0;
  must(!is_known || restart.attempt == attempts + 1,
       fmt::format("rank {} failed once and is restarted twice", rank));
  must(!is_known || restart.restart_count == job.restarts + 1,
       fmt::format("a restart of rank {} took the count from {} to {}", rank, job.restarts,
                   restart.restart_count));
  const auto most = restarts_max(scenario_.jobs[index(job_number)].restarts);
  must(!most || restart.restart_count <= *most, "the restart budget was overdrawn");
  if (death != job.deaths.end()) job.deaths.erase(death);
  attempts = restart.attempt;
  job.restarts = restart.restart_count;
}

std::optional<int> Judge::holder_of(int job, RoundId round, Rank rank) const {
  const JobRecord& record = jobs_[index(job)];
  if (record.round != round || rank.value < 0) return std::nullopt;
  if (index(rank.value) >= record.holder.size()) return std::nullopt;
  return record.holder[index(rank.value)];
}

// Every rank once, the ranks of a node in a row, and the same numbers for all nodes.
void Judge::check_ranks(const Seats& seats) {
  std::map<int, std::pair<int, int>> by_base;  // base → group rank, workers
  const link::Sealed& any = seats.front().second;
  for (const auto& [node, sealed] : seats) {
    const std::pair seat{sealed.group_rank.value, scenario_.workers_of(node)};
    const bool is_new = by_base.emplace(sealed.base_rank.value, seat).second;
    must(is_new, fmt::format("two nodes begin with rank {}", sealed.base_rank.value));
    must(sealed.restart_count == any.restart_count, "nodes received different restart counts");
    must(sealed.world_size == any.world_size && sealed.round == any.round &&
             sealed.group_world_size == static_cast<int>(seats.size()),
         "nodes received different worlds");
  }
  int next_rank = 0;
  int next_group = 0;
  for (const auto& [base, group] : by_base) {
    must(base == next_rank && group.first == next_group, "the ranks have a gap");
    next_rank += group.second;
    ++next_group;
  }
  must(next_rank == any.world_size, "the ranks do not make the world");
}

// No worker of an older round is alive, unless the coordinator has not received a message of its
// node for the lease.
void Judge::check_the_old_round(int job, const Seats& seats) {
  for (const auto& [node, sealed] : seats) {
    must(!witness_.any_in_round(node),
         fmt::format("round {} was sealed with node {}, where workers of an older one are alive",
                     sealed.round.value, node));
  }
  for (int node = 0; node < scenario_.nodes(); ++node) {
    if (scenario_.job_of(node) != job || !jobs_[index(job)].seated[index(node)]) continue;
    const bool has_a_seat = std::any_of(seats.begin(), seats.end(),
                                        [node](const auto& each) { return each.first == node; });
    if (has_a_seat || !witness_.any_alive(node)) continue;
    if (!witness_.any_in_round(node)) {
      fence(node);
      continue;
    }
    const Duration silence = time_.now() - nodes_[index(node)].heard;
    must(nodes_[index(node)].was_silent || is_a_lease(silence),
         fmt::format("round {} was sealed while workers of node {} are alive, which was heard {} "
                     "ms ago",
                     seats.front().second.round.value, node, silence / 1ms));
    // Its own agent, or the watchdog of a stopped one, has counted the same lease.
    must(!witness_.computing(node),
         fmt::format("the ranks of node {} were given away while its workers compute", node));
    fence(node);
  }
}

}  // namespace cpprun::sim
