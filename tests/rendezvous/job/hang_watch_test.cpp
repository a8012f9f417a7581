// SPDX-License-Identifier: BSD-3-Clause
// A job that makes no progress: when that is noticed, what is captured, and what its nodes are
// sent.

#include "rendezvous/job/hang_watch.h"

#include <doctest/doctest.h>

#include "rendezvous/hang/evidence_json.h"
#include "tests/rendezvous/job/job_table.h"

namespace hang_watch_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

constexpr Duration timeout = 60s;

link::Join capturing(int rank) {
  auto join = node(rank);
  join.captures = true;
  return join;
}

// Two nodes of two workers each, which run.
struct Running : Table {
  Running() {
    join(t0, a, capturing(0), true);
    join(t0, b, capturing(1));
  }
  coordinator::Actions beat(TimePoint now, LinkId link, Duration quiet) {
    return hear(now, link, link::Heartbeat{.quiet = quiet, .hang_timeout = timeout});
  }
  // No worker has shown progress since t0. Heartbeats arrive every second.
  coordinator::Actions quiet_until(TimePoint end) {
    coordinator::Actions actions;
    for (TimePoint now = t0 + 1s; now <= end; now += 1s) {
      for (const LinkId link : {a, b}) {
        for (auto& each : beat(now, link, now - t0)) actions.push_back(std::move(each));
      }
      for (auto& each : awake(now)) actions.push_back(std::move(each));
    }
    return actions;
  }
  // The node's ranks wait in the same all_reduce, apart from a rank that computes something else.
  coordinator::Actions captured(TimePoint now, LinkId link, std::uint64_t number,
                                std::optional<Rank> odd, Duration quiet = timeout) {
    std::vector<hang::WorkerEvidence> workers;
    const int base = link == a ? 0 : 2;
    for (const Rank rank : {Rank{base}, Rank{base + 1}}) {
      const bool is_odd = odd == rank;
      workers.push_back({.rank = rank,
                         .pid = 100,
                         .activity = is_odd ? hang::Activity::lock : hang::Activity::collective,
                         .stack = {{is_odd ? "load" : "all_reduce", "train.py", 8}},
                         .positions = {{.group = "default_pg",
                                        .sequence = is_odd ? 4 : 5,
                                        .operation = "all_reduce",
                                        .is_pending = !is_odd}}});
    }
    return hear(now, link,
                link::Captured{.round = RoundNumber{1},
                               .number = number,
                               .bytes = hang::evidence_json(hang::cluster(workers)),
                               .quiet = quiet});
  }
};

std::vector<std::string> notes(const coordinator::Actions& actions) {
  std::vector<std::string> lines;
  for (const auto& action : actions) {
    if (const auto* note = std::get_if<coordinator::Note>(&action)) lines.push_back(note->line);
  }
  return lines;
}

}  // namespace

TEST_CASE("a job in which no rank makes progress is captured, and the rank to blame is ended") {
  Running job;
  const auto quiet = job.quiet_until(t0 + 61s);
  const auto asked = said<link::Capture>(quiet, b);
  REQUIRE(asked.size() == 1);
  CHECK(said<link::Capture>(quiet, a) == asked);
  CHECK(said<link::Verdict>(job.captured(t0 + 62s, a, asked[0].number, std::nullopt), a).empty());
  const auto judged = job.captured(t0 + 62s, b, asked[0].number, Rank{3});
  for (const LinkId link : {a, b}) {
    const auto verdicts = said<link::Verdict>(judged, link);
    REQUIRE(verdicts.size() == 1);
    CHECK(verdicts[0].rank == Rank{3});
    CHECK(verdicts[0].kind == "missing");
    CHECK(verdicts[0].quiet >= timeout);
    CHECK(verdicts[0].clusters.size() == 2);
  }
  REQUIRE(job.job.last_capture());
  CHECK(job.job.last_capture()->is_hang);
  // Once is enough while the node ends its worker.
  CHECK(said<link::Capture>(job.quiet_until(t0 + 120s), a).empty());
  // But the verdict may have been lost.
  CHECK(said<link::Capture>(job.quiet_until(t0 + 130s), a).size() == 1);
}

TEST_CASE("at half of the timeout one note says so") {
  Running job;
  const auto lines = notes(job.quiet_until(t0 + 59s));
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] ==
        "no progress from any of the 4 ranks for 30 s; if there is none until 60 s "
        "(--hang-timeout), cpprun captures their stacks and ends the round");
}

TEST_CASE("one rank that makes progress is progress of the job") {
  Running job;
  job.quiet_until(t0 + 59s);
  job.beat(t0 + 59s, b, 0s);
  CHECK(said<link::Capture>(job.awake(t0 + 61s), a).empty());
  // Node 0 has been quiet for two minutes by then, and node 1 for one.
  for (TimePoint now = t0 + 61s; now < t0 + 119s; now += 1s) {
    job.beat(now, a, now - t0);
    job.beat(now, b, now - (t0 + 59s));
    REQUIRE(said<link::Capture>(job.awake(now), a).empty());
  }
  job.beat(t0 + 120s, a, 120s);
  job.beat(t0 + 120s, b, 61s);
  CHECK(said<link::Capture>(job.awake(t0 + 120s), a).size() == 1);
}

TEST_CASE("a node that has exited with 0 is not waited for, even if the others report only once") {
  Running job;
  job.beat(t0 + 5s, a, 5s);  // in the coordinator's own process
  for (TimePoint now = t0 + 1s; now < t0 + 30s; now += 1s) job.beat(now, b, 0s);
  job.hear(t0 + 30s, b, link::Succeeded{RoundNumber{1}});
  CHECK(said<link::Capture>(job.awake(t0 + 60s), a).size() == 1);
}

TEST_CASE("a node that has seen progress meanwhile cancels the verdict") {
  Running job;
  job.quiet_until(t0 + 61s);
  job.captured(t0 + 62s, a, 1, std::nullopt);
  SUBCASE("by its reply") {
    job.captured(t0 + 62s, b, 1, Rank{3}, 0s);
  }
  SUBCASE("by a heartbeat") {
    job.beat(t0 + 62s, b, 0s);
    job.captured(t0 + 62s, b, 1, Rank{3});
  }
  REQUIRE(job.job.last_capture());
  CHECK_FALSE(job.job.last_capture()->is_hang);
}

TEST_CASE("a node that does not reply in time is named, and the others get the verdict") {
  Running job;
  job.quiet_until(t0 + 61s);
  job.captured(t0 + 62s, a, 1, std::nullopt);
  // It sends heartbeats, so it is not lost.
  for (int i = 62; i < 66; ++i) job.beat(t0 + i * 1s, b, i * 1s);
  const auto judged = job.advance(t0 + 65s);
  REQUIRE(said<link::Verdict>(judged, b).size() == 1);
  CHECK(job.job.last_capture()->silent_nodes == std::vector<std::string>{"node 1 on host1"});
}

TEST_CASE("a node that is not heard may have made progress") {
  Running job;
  job.quiet_until(t0 + 60s);
  job.captured(t0 + 62s, a, 1, std::nullopt);
  SUBCASE("its link is broken") {
    job.close(t0 + 62s, b, /*broken=*/true);
    job.advance(t0 + 65s);
  }
  SUBCASE("it neither replies nor sends heartbeats") {
    job.advance(t0 + 65s);
  }
  const auto& last = job.job.last_capture();
  CHECK((!last || !last->is_hang));
}

TEST_CASE("invalid evidence is reported, and no node is lost for it") {
  Running job;
  const auto asked = job.command(t0 + 1s, {.kind = OperatorCommand::Kind::capture});
  REQUIRE(said<link::Capture>(asked.actions, b).size() == 1);
  const auto heard = job.hear(
      t0 + 1s, b,
      link::Captured{.round = RoundNumber{1}, .number = 1, .bytes = "[", .quiet = timeout});
  REQUIRE(notes(heard).size() == 1);
  CHECK(notes(heard)[0].starts_with("invalid stacks from node 1 on host1: "));
  job.captured(t0 + 1s, a, 1, std::nullopt);
  REQUIRE(job.job.last_capture());
  CHECK(job.job.last_capture()->silent_nodes == std::vector<std::string>{"node 1 on host1"});
}

TEST_CASE("evidence about the ranks of another node is rejected") {
  Running job;
  job.command(t0 + 1s, {.kind = OperatorCommand::Kind::capture});
  std::vector<hang::WorkerEvidence> workers{
      {.rank = Rank{0}, .pid = 1, .activity = hang::Activity::stopped}};
  const auto heard = job.hear(t0 + 1s, b,
                              link::Captured{.round = RoundNumber{1},
                                             .number = 1,
                                             .bytes = hang::evidence_json(hang::cluster(workers)),
                                             .quiet = timeout});
  REQUIRE(notes(heard).size() == 1);
  CHECK(notes(heard)[0] ==
        "invalid stacks from node 1 on host1: they are about ranks of other nodes");
}

TEST_CASE("a node that reconnects is asked again") {
  Running job;
  job.command(t0 + 1s, {.kind = OperatorCommand::Kind::capture});
  job.captured(t0 + 1s, a, 1, std::nullopt);
  job.close(t0 + 1s, b, /*broken=*/true);
  const auto resumed = back(job, t0 + 2s, after(capturing(1), 1));
  CHECK(said<link::Capture>(resumed, newer).size() == 1);
  job.captured(t0 + 2s, newer, 1, Rank{3});
  REQUIRE(job.job.last_capture());
  CHECK(job.job.last_capture()->silent_nodes.empty());
}

TEST_CASE("progress just before the end of the timeout cancels the verdict") {
  Running job;
  job.quiet_until(t0 + 61s);
  job.captured(t0 + 62s, a, 1, std::nullopt, 62s);
  job.captured(t0 + 62s, b, 1, Rank{3}, 40s);
  REQUIRE(job.job.last_capture());
  CHECK_FALSE(job.job.last_capture()->is_hang);
  // The timeout counts from that progress.
  job.beat(t0 + 81s, a, 81s);
  job.beat(t0 + 81s, b, 59s);
  CHECK(said<link::Capture>(job.awake(t0 + 81s), a).empty());
  job.beat(t0 + 83s, a, 83s);
  job.beat(t0 + 83s, b, 61s);
  CHECK(said<link::Capture>(job.awake(t0 + 83s), a).size() == 1);
}

TEST_CASE("an operator captures the stacks at any time, and the workers run on") {
  Running job;
  const auto asked = job.command(t0 + 1s, {.kind = OperatorCommand::Kind::capture});
  CHECK(asked.outcome.sentence == "capturing the stacks of 4 workers of round 1 (capture 1)");
  CHECK(job.job.is_capturing());
  job.captured(t0 + 1s, a, 1, std::nullopt);
  const auto judged = job.captured(t0 + 2s, b, 1, Rank{3});
  CHECK(said<link::Verdict>(judged, b).empty());
  CHECK_FALSE(job.job.is_capturing());
  REQUIRE(job.job.last_capture());
  CHECK(job.job.last_capture()->verdict.rank == Rank{3});
}

namespace {

// Node b has seen a timeout of PyTorch.
coordinator::Actions timed_out(Running& job, TimePoint now) {
  return job.hear(now, b, link::Heartbeat{.timed_out = true});
}

}  // namespace

TEST_CASE("when PyTorch's own timeout strikes, all nodes are captured and get the verdict") {
  Running job;
  const auto asked = timed_out(job, t0 + 1s);
  for (const LinkId link : {a, b}) {
    REQUIRE(said<link::Capture>(asked, link).size() == 1);
    CHECK(said<link::Capture>(asked, link)[0].is_timeout);
  }
  // Other ranks time out as well.
  CHECK(said<link::Capture>(timed_out(job, t0 + 2s), a).empty());
  job.captured(t0 + 2s, b, 1, std::nullopt);
  SUBCASE("while the round runs") {}
  SUBCASE("while the round drains, after a node has drained") {
    job.hear(t0 + 2s, b, link::Failed{.round = RoundNumber{1}, .failure = {.rank = Rank{2}}});
    job.drained(t0 + 2s, 1, {b});
  }
  const auto judged = job.captured(t0 + 2s, a, 1, Rank{1});
  for (const LinkId link : {a, b}) {
    REQUIRE(said<link::Verdict>(judged, link).size() == 1);
    const link::Verdict verdict = said<link::Verdict>(judged, link)[0];
    CHECK(verdict.is_timeout);
    CHECK(verdict.quiet == 0s);
    CHECK(verdict.rank == Rank{1});
    CHECK(verdict.kind == "missing");
  }
  CHECK_FALSE(job.job.last_capture()->is_hang);
}

TEST_CASE("a script that handles a timeout is captured once a minute") {
  Running job;
  timed_out(job, t0 + 1s);
  CHECK(said<link::Capture>(timed_out(job, t0 + 60s), a).empty());
  CHECK(said<link::Capture>(timed_out(job, t0 + 61s), a).size() == 1);
}

TEST_CASE("the end of a job does not wait for a capture, and its verdict comes first") {
  Running job;
  timed_out(job, t0 + 1s);
  job.captured(t0 + 2s, b, 1, std::nullopt);
  job.hear(t0 + 2s, b, link::Failed{.round = RoundNumber{1}, .failure = {.rank = Rank{2}}});
  // Node a could not read its workers.
  const auto ended = job.drained(t0 + 2s, 1, {b, a});
  REQUIRE(said<link::Verdict>(ended, b).size() == 1);
  CHECK(said<link::Finish>(ended, b).size() == 1);
  CHECK(job.job.last_capture()->silent_nodes.size() == 1);
}

TEST_CASE("agents of an earlier version are not asked") {
  Table job;
  job.join(t0, a, capturing(0), true);
  job.join(t0, b, node(1));
  const auto asked = job.command(t0 + 1s, {.kind = OperatorCommand::Kind::capture});
  CHECK(said<link::Capture>(asked.actions, a).size() == 1);
  CHECK(said<link::Capture>(asked.actions, b).empty());
}

TEST_CASE("without a running round there is nothing to capture") {
  Table job;
  job.join(t0, a, capturing(0), true);
  const auto asked = job.command(t0 + 1s, {.kind = OperatorCommand::Kind::capture});
  CHECK(asked.outcome.kind == CommandResult::Kind::not_now);
}

}  // namespace hang_watch_test
