// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/diagnosis.h"

#include <doctest/doctest.h>

#include <csignal>
#include <vector>

#include "rendezvous/job/bounds.h"

namespace pending_failures_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

const PendingFailures::Attempt place{
    .round = RoundNumber{2}, .group_rank = GroupRank{1}, .host = "beta"};

Evidence end_of(int local_rank, link::ExitStatus status, int our_signal = 0) {
  Evidence evidence;
  evidence.outcome.local_rank = LocalRank{local_rank};
  evidence.outcome.rank = Rank{4 + local_rank};
  evidence.outcome.pid = 100;
  evidence.outcome.status = status;
  evidence.outcome.our_signal = our_signal;
  return evidence;
}

}  // namespace

TEST_CASE(
    "a worker that failed by itself is reported, with its place and the time it was noticed") {
  PendingFailures pending_failures;
  pending_failures.noticed(TimePoint{} + 5s, LocalRank{1});
  pending_failures.asked(LocalRank{1});
  CHECK_FALSE(pending_failures.complete());
  const auto failed = pending_failures.judge(end_of(1, {.value = 3}), place).told;
  REQUIRE(failed);
  CHECK(failed->round == RoundNumber{2});
  CHECK(failed->failure.rank == Rank{5});
  CHECK(failed->failure.host == "beta");
  CHECK(failed->noticed == 5s);
  CHECK(pending_failures.complete());
}

TEST_CASE("a worker that cpprun stopped is no failure") {
  PendingFailures pending_failures;
  pending_failures.asked(LocalRank{0});
  const auto judged =
      pending_failures.judge(end_of(0, {.signalled = true, .value = SIGTERM}, SIGTERM), place);
  CHECK_FALSE(judged.told);
  CHECK(judged.end.diagnosis().cause == told_to_end);
  CHECK(pending_failures.complete());
}

TEST_CASE("evidence that was not requested in this attempt is ignored") {
  PendingFailures pending_failures;
  CHECK_FALSE(pending_failures.judge(end_of(0, {.value = 3}), place).told);
}

TEST_CASE("of many failures on one node a few are reported, the later ones with short messages") {
  PendingFailures pending_failures;
  int reported = 0;
  for (int rank = 0; rank < 20; ++rank) {
    pending_failures.asked(LocalRank{rank});
    Evidence evidence = end_of(rank, {.value = 3});
    evidence.last_lines = {std::string(1000, 'x')};
    const auto failed = pending_failures.judge(evidence, place).told;
    if (!failed) continue;
    ++reported;
    if (reported > 1) CHECK(failed->failure.message.size() <= bounds::later_message_bytes_max);
  }
  CHECK(reported == bounds::failures_told_max);
  CHECK(pending_failures.complete());
}

TEST_CASE("a failure after this node was asked to stop is no failure of the job") {
  PendingFailures pending_failures;
  pending_failures.noticed(TimePoint{} + 5s, LocalRank{0});
  pending_failures.stopped(TimePoint{} + 5s);
  pending_failures.noticed(TimePoint{} + 5s + 1us, LocalRank{1});
  pending_failures.asked(LocalRank{0});
  pending_failures.asked(LocalRank{1});
  const link::ExitStatus crash{.signalled = true, .value = SIGSEGV};
  CHECK(pending_failures.judge(end_of(0, crash), place).told);
  CHECK_FALSE(pending_failures.judge(end_of(1, crash, SIGTERM), place).told);
  CHECK(pending_failures.complete());
}

TEST_CASE("a failure after the round was broken is a consequence, whatever the clocks say") {
  PendingFailures pending_failures;
  pending_failures.noticed(TimePoint{} + 5s, LocalRank{0});
  pending_failures.drained(TimePoint{} + 5s);
  pending_failures.noticed(TimePoint{} + 5s + 1us, LocalRank{1});
  pending_failures.asked(LocalRank{0});
  pending_failures.asked(LocalRank{1});
  const link::ExitStatus crash{.signalled = true, .value = SIGSEGV};
  const auto before = pending_failures.judge(end_of(0, crash), place).told;
  REQUIRE(before);
  CHECK_FALSE(before->failure.consequence);
  CHECK_FALSE(before->late);
  const auto after = pending_failures.judge(end_of(1, crash), place).told;
  REQUIRE(after);
  CHECK(after->failure.consequence);
  CHECK(after->late);
}

TEST_CASE("a late failure with a cause of its own makes the earlier symptoms consequences") {
  const auto ends = [](const char* words_of_first) {
    PendingFailures pending_failures;
    pending_failures.noticed(TimePoint{} + 5s, LocalRank{0});
    pending_failures.drained(TimePoint{} + 5s);
    pending_failures.noticed(TimePoint{} + 5s + 1ms, LocalRank{1});
    pending_failures.noticed(TimePoint{} + 5s + 2ms, LocalRank{2});
    for (const int rank : {0, 1, 2}) pending_failures.asked(LocalRank{rank});
    Evidence first = end_of(0, {.value = 1});
    first.last_lines = {words_of_first};
    Evidence late = end_of(1, {.value = 7}, SIGTERM);
    late.last_lines = {"Traceback (most recent call last):", "ValueError: bad label 17"};
    std::vector<bool> consequences;
    for (const auto& each : {first, late, end_of(2, {.signalled = true, .value = SIGSEGV})}) {
      const auto reported = pending_failures.judge(each, place).told;
      REQUIRE(reported);
      consequences.push_back(reported->failure.consequence);
    }
    return consequences;
  };
  // The third has no output, and so remains a consequence.
  CHECK(ends("RuntimeError: [pair.cc:534] Connection reset by peer") ==
        std::vector{true, false, true});
  CHECK(ends("OSError: [Errno 28] No space left on device") == std::vector{false, true, true});
}

TEST_CASE("a worker killed from outside is reported, though other nodes noticed its end first") {
  // The peers on another node exited sooner by their exceptions, and the round was broken.
  const auto late_end = [](link::ExitStatus status) {
    PendingFailures pending_failures;
    pending_failures.drained(TimePoint{} + 5s);
    pending_failures.noticed(TimePoint{} + 5s + 1ms, LocalRank{1});
    pending_failures.asked(LocalRank{1});
    return pending_failures.judge(end_of(1, status, SIGTERM), place).told;
  };
  const auto killed = late_end({.signalled = true, .value = SIGKILL});
  REQUIRE(killed);
  CHECK(killed->late);
  CHECK_FALSE(killed->failure.consequence);
  // It was asked to stop, and may have crashed because of that.
  const auto crashed = late_end({.signalled = true, .value = SIGSEGV});
  REQUIRE(crashed);
  CHECK(crashed->failure.consequence);
  CHECK_FALSE(late_end({.signalled = true, .value = SIGTERM}));
}

TEST_CASE("the exit, its failure and the coordinator's message have one verdict") {
  PendingFailures pending_failures;
  pending_failures.asked(LocalRank{0});
  Evidence evidence = end_of(0, {.value = 1});
  evidence.last_lines = {"OSError: [Errno 28] No space left on device"};
  const auto judged = pending_failures.judge(evidence, place);
  CHECK(judged.end.evidence() == evidence);
  CHECK(judged.end.diagnosis().cause == "disk_full");
  CHECK(judged.failure.cause == judged.end.diagnosis().cause);
  CHECK(judged.failure.message == judged.end.diagnosis().message);
  REQUIRE(judged.told);
  CHECK(judged.told->failure == judged.failure);
}

TEST_CASE("a later failure's message is not cut inside a character") {
  PendingFailures pending_failures;
  for (const int rank : {0, 1}) {
    pending_failures.asked(LocalRank{rank});
    Evidence evidence = end_of(rank, {.value = 3});
    std::string words = std::string(static_cast<std::size_t>(rank) + 1, 'x');
    while (words.size() < 1000) words += "\u20ac";
    evidence.last_lines = {words};
    const auto reported = pending_failures.judge(evidence, place).told;
    REQUIRE(reported);
    const std::string& message = reported->failure.message;
    if (rank == 1) CHECK(message.size() <= bounds::later_message_bytes_max);
    CHECK(message.ends_with("\u20ac"));
  }
}

TEST_CASE("the first worker that exited with 0 is known, unless it had been signalled") {
  PendingFailures pending_failures;
  std::vector<Outcome> outcomes;
  for (const int rank : {0, 1, 2, 3}) {
    pending_failures.started(TimePoint{} + 1s, LocalRank{rank});
    outcomes.push_back(end_of(rank, {.value = rank == 0 ? 1 : 0}, rank == 1 ? SIGTERM : 0).outcome);
  }
  pending_failures.noticed(TimePoint{} + 2s, LocalRank{0});  // it failed
  pending_failures.noticed(TimePoint{} + 3s, LocalRank{1});  // it was signalled
  pending_failures.noticed(TimePoint{} + 5s, LocalRank{2});
  pending_failures.noticed(TimePoint{} + 4s, LocalRank{3});
  const auto first = pending_failures.first_to_leave(outcomes, place);
  REQUIRE(first);
  CHECK(first->round == RoundNumber{2});
  CHECK(first->failure.rank == Rank{7});
  CHECK(first->failure.host == "beta");
  CHECK(first->failure.cause == left_early);
  CHECK(first->failure.consequence);
  CHECK(first->failure.message == "exited with code 0 after 3.0 s while others still communicated");
  CHECK(first->noticed == 4s);
  outcomes.resize(2);
  CHECK_FALSE(pending_failures.first_to_leave(outcomes, place));
}

}  // namespace pending_failures_test
