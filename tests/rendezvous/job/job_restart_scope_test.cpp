// SPDX-License-Identifier: BSD-3-Clause
// Workers that are restarted alone (--restart-scope=worker): one budget for all nodes, repeated
// messages, another coordinator, process groups.

#include <doctest/doctest.h>

#include <limits>

#include "rendezvous/job/job_record_json.h"
#include "rendezvous/job/job_rounds.h"
#include "tests/rendezvous/job/job_table.h"

namespace job_restart_scope_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

constexpr RoundNumber first{1};

JobTerms two_nodes(RestartRules restarts) {
  restarts.scope = RestartScope::worker;
  return {.id = "j", .nodes_min = 2, .nodes_max = 2, .restarts = std::move(restarts)};
}

// Ranks 0 and 1 are on node 0, ranks 2 and 3 on node 1.
link::Failed failed(int rank, int attempt = 0, int code = 7) {
  return {.round = first,
          .failure = {.rank = Rank{rank}, .status = {.signalled = false, .value = code}},
          .attempt = attempt};
}

using Restarts = std::vector<link::RestartWorker>;

link::RestartWorker restart(int rank, int attempt, int count, std::string reason,
                            Duration pause = {}) {
  return {.round = first,
          .rank = Rank{rank},
          .attempt = attempt,
          .restart_count = count,
          .pause = pause,
          .reason = std::move(reason)};
}

}  // namespace

TEST_CASE("a failed worker is restarted alone, and the nodes of the job share one budget") {
  Table table{two_nodes({.max = 2})};
  table.seal();
  const auto one = table.hear(t0 + 5s, b, failed(3));
  CHECK(said<link::RestartWorker>(one, b) == Restarts{restart(3, 1, 1, "restart 1 of 2")});
  CHECK(said<link::Drain>(one, a).empty());
  CHECK(table.job.round().phase() == Round::Phase::sealed);
  CHECK(said<link::RestartWorker>(table.hear(t0 + 9s, a, failed(0)), a) ==
        Restarts{restart(0, 1, 2, "restart 2 of 2")});
  // The budget is used up: the third failure is the job's.
  const auto third = table.hear(t0 + 10s, b, failed(2, 0, 9));
  CHECK(said<link::RestartWorker>(third, b).empty());
  CHECK(said<link::Drain>(third, a).size() == 1);
  table.drained(t0 + 11s, 1, {a});
  const auto finish = said<link::Finish>(table.drained(t0 + 11s, 1, {b}), b);
  REQUIRE(finish.size() == 1);
  CHECK(finish[0].exit_code == 9);
  CHECK(finish[0].root->rank == Rank{2});
  CHECK(finish[0].restarts == 2);
  CHECK(finish[0].consequence_count == 0);
  CHECK(table.job.rounds().history().list()[0].worker_restarts == 2);
}

TEST_CASE("the seat confirms the restart scope") {
  Table alone{two_nodes({.max = 1})};
  alone.join(t0, a, node(0), true);
  CHECK(said<link::Sealed>(alone.join(t0, b, node(1)), b)[0].restarts_workers);
  Table whole{1};
  whole.join(t0, a, node(0), true);
  CHECK_FALSE(said<link::Sealed>(whole.join(t0, b, node(1)), b)[0].restarts_workers);
}

TEST_CASE("a failure that is reported again gets the same answer, and spends nothing") {
  Table table{two_nodes({.max = 2})};
  table.seal();
  table.hear(t0 + 5s, b, failed(3));
  CHECK(said<link::RestartWorker>(table.hear(t0 + 6s, b, failed(3)), b) ==
        Restarts{restart(3, 1, 1, "restart 1 of 2")});
  CHECK(table.job.rounds().policy().restarts_used() == 1);
  // Its next failure is another one.
  CHECK(said<link::RestartWorker>(table.hear(t0 + 7s, b, failed(3, 1)), b) ==
        Restarts{restart(3, 2, 2, "restart 2 of 2")});
  // And the first one, late: it is known.
  CHECK(said<link::Drain>(table.hear(t0 + 8s, b, failed(3)), b).empty());
}

TEST_CASE("a failure of an unknown attempt restarts no worker alone") {
  for (const int attempt : {1, std::numeric_limits<int>::max(), -1}) {
    Table table{two_nodes({.max = 9})};
    table.seal();
    const auto broken = table.hear(t0 + 5s, b, failed(3, attempt));
    CHECK(said<link::RestartWorker>(broken, b).empty());
    CHECK(said<link::Drain>(broken, a).size() == 1);
  }
}

TEST_CASE("a node that stops its workers in a running round breaks it, and uses no restart") {
  Table table{two_nodes({.max = 2})};
  table.seal();
  table.hear(t0 + 5s, b, failed(3));
  const auto broken = table.hear(t0 + 40s, b, link::Drained{.round = first});
  REQUIRE(said<link::Drain>(broken, a).size() == 1);
  CHECK(said<link::Drain>(broken, a)[0].reason.find("has stopped its workers") !=
        std::string::npos);
  const auto sealed = table.drained(t0 + 41s, 1, {a});
  REQUIRE(said<link::Sealed>(sealed, a).size() == 1);
  CHECK(said<link::Sealed>(sealed, a)[0].restart_count == 1);
}

TEST_CASE("a failure on a node that stops its workers restarts no worker alone") {
  Table table{two_nodes({.max = 2})};
  table.seal();
  table.hear(t0 + 5s, b, failed(3));
  link::Failed late = failed(2);
  late.late = true;
  const auto broken = table.hear(t0 + 40s, b, late);
  CHECK(said<link::RestartWorker>(broken, b).empty());
  CHECK(said<link::Drain>(broken, a).size() == 1);
  table.drained(t0 + 41s, 1, {b});
  const auto sealed = table.drained(t0 + 41s, 1, {a});
  REQUIRE(said<link::Sealed>(sealed, a).size() == 1);
  CHECK(said<link::Sealed>(sealed, a)[0].restart_count == 1);
}

TEST_CASE("without a budget the first failure ends the job, as always") {
  Table table{two_nodes({})};
  table.seal();
  CHECK(said<link::Drain>(table.hear(t0 + 5s, b, failed(3)), a).size() == 1);
}

TEST_CASE("a pause before the restart is passed on, and what is left of it in a repeated answer") {
  Table table{two_nodes({.max = 9, .backoff = 4s})};
  table.seal();
  const auto pause = [&](TimePoint now) {
    const auto restarts = said<link::RestartWorker>(table.hear(now, b, failed(3)), b);
    return restarts.empty() ? Duration{-1s} : restarts[0].pause;
  };
  CHECK(pause(t0 + 5s) == 4s);
  CHECK(pause(t0 + 6s) == 3s);
  CHECK(pause(t0 + 60s) == 0s);
}

TEST_CASE("a worker that fails at its start again and again ends the job, another one does not") {
  Table table{two_nodes({.max = 9, .window = 1h})};
  table.seal();
  TimePoint now = t0;
  for (int i = 0; i < 2; ++i) {
    now += 100ms;
    CHECK(said<link::RestartWorker>(table.hear(now, b, failed(3, i)), b).size() == 1);
    CHECK(said<link::RestartWorker>(table.hear(now, b, failed(2, i)), b).size() == 1);
  }
  const auto loops = table.hear(now + 100ms, b, failed(3, 2));
  CHECK(said<link::Drain>(loops, b).size() == 1);
  table.drained(now + 1s, 1, {a});
  const auto finish = said<link::Finish>(table.drained(now + 1s, 1, {b}), b);
  REQUIRE(finish.size() == 1);
  CHECK(finish[0].reason.find("rank 3 died within 1 s of its start 3 times in a row") !=
        std::string::npos);
}

TEST_CASE("a host that fails too often is excluded, for which the round has to break") {
  Table table{two_nodes({.max = 9, .host_limit = {.failures = 2}})};
  table.seal();
  CHECK(said<link::RestartWorker>(table.hear(t0 + 5s, b, failed(3)), b).size() == 1);
  CHECK(said<link::Drain>(table.hear(t0 + 9s, b, failed(2)), a).size() == 1);
}

TEST_CASE("the workers of a process group are restarted together, with one warning") {
  Table table{two_nodes({.max = 9})};
  table.seal();
  coordinator::Actions actions;
  table.job.found_process_group(actions);
  table.job.found_process_group(actions);
  REQUIRE(actions.size() == 1);
  const auto* const note = std::get_if<coordinator::Note>(&actions[0]);
  REQUIRE(note != nullptr);
  CHECK(note->line.find("its workers form a process group") != std::string::npos);
  const auto broken = table.hear(t0 + 5s, b, failed(3));
  CHECK(said<link::RestartWorker>(broken, b).empty());
  CHECK(said<link::Drain>(broken, a).size() == 1);
  const auto sealed = table.drained(t0 + 6s, 1, {a, b});
  CHECK(said<link::Sealed>(sealed, a)[0].restart_count == 1);
  // The next round has a store of its own.
  auto again = failed(3);
  again.round = RoundNumber{2};
  CHECK(said<link::RestartWorker>(table.hear(t0 + 9s, b, again), b).size() == 1);
}

TEST_CASE("in a job that restarts as a whole, a process group is no news") {
  Table table{1};
  table.seal();
  coordinator::Actions actions;
  table.job.found_process_group(actions);
  CHECK(actions.empty());
}

TEST_CASE("another coordinator knows which workers were restarted") {
  Table table{two_nodes({.max = 2})};
  table.seal();
  const auto before = table.job.steps();
  table.hear(t0 + 5s, b, failed(3));
  CHECK(table.job.steps() > before);
  const ClockPair moment{t0 + 6s, WallTime{std::chrono::seconds(1'770'000'000)}};
  const auto record = read_job_record(job_record_bytes(table.job.record(), moment), moment);
  REQUIRE(record);
  CHECK(record->restarted_workers == table.job.record().restarted_workers);
  Table next{two_nodes({.max = 2})};
  next.job = Job{t0 + 6s,
                 *record,
                 {.lease = 3s, .status_interval = 5s, .store_port = 29500},
                 LinkId{20},
                 /*has_store=*/true};
  // The answer to its first failure may have been lost.
  CHECK(said<link::RestartWorker>(next.hear(t0 + 7s, LinkId{21}, failed(3)), LinkId{21}) ==
        Restarts{restart(3, 1, 1, "restart 1 of 2")});
  CHECK(said<link::RestartWorker>(next.hear(t0 + 7s, LinkId{21}, failed(3, 1)), LinkId{21}) ==
        Restarts{restart(3, 2, 2, "restart 2 of 2")});
}

TEST_CASE("a record with an impossible restarted worker is rejected") {
  Table table{two_nodes({.max = 2})};
  table.seal();
  table.hear(t0 + 5s, b, failed(3));
  JobRecord record = table.job.record();
  record.restarted_workers[0].rank = Rank{4};
  const ClockPair moment{t0 + 6s, WallTime{std::chrono::seconds(1'770'000'000)}};
  CHECK_FALSE(read_job_record(job_record_bytes(record, moment), moment));
}

TEST_CASE("a node with another restart scope is rejected, with both flags") {
  link::Join other = node(1);
  other.restarts.max = 1;
  CHECK(disagreement(two_nodes({.max = 1}), other) ==
        "this job uses --max-restarts=1 --restart-scope=worker, but host1 has --max-restarts=1; "
        "use the same restart budget on every node");
}

}  // namespace job_restart_scope_test
