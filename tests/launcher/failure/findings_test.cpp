#include "launcher/failure/findings.h"

#include <doctest/doctest.h>

#include <csignal>

#include "proto/bounds.h"

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

const Findings::Place place{.round = RoundNumber{2}, .group_rank = GroupRank{1}, .host = "beta"};

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

TEST_CASE("what ended by itself is told, with its place and the time it was noticed") {
  Findings findings;
  findings.noticed(TimePoint{} + 5s, LocalRank{1});
  findings.asked(LocalRank{1});
  CHECK_FALSE(findings.complete());
  const auto failed = findings.judge(end_of(1, {.value = 3}), place);
  REQUIRE(failed);
  CHECK(failed->round == RoundNumber{2});
  CHECK(failed->failure.rank == Rank{5});
  CHECK(failed->failure.host == "beta");
  CHECK(failed->noticed == 5s);
  CHECK(findings.complete());
}

TEST_CASE("whom we ended ourselves is nobody's failure") {
  Findings findings;
  findings.asked(LocalRank{0});
  CHECK_FALSE(findings.judge(end_of(0, {.signalled = true, .value = SIGTERM}, SIGTERM), place));
  CHECK(findings.complete());
}

TEST_CASE("evidence that nobody asked for in this attempt is left alone") {
  Findings findings;
  CHECK_FALSE(findings.judge(end_of(0, {.value = 3}), place));
}

TEST_CASE("of many failures on one node a few are told, the later ones in few words") {
  Findings findings;
  int told = 0;
  for (int rank = 0; rank < 20; ++rank) {
    findings.asked(LocalRank{rank});
    Evidence evidence = end_of(rank, {.value = 3});
    evidence.last_lines = {std::string(1000, 'x')};
    const auto failed = findings.judge(evidence, place);
    if (!failed) continue;
    ++told;
    if (told > 1) CHECK(failed->failure.message.size() <= bounds::later_message_bytes_max);
  }
  CHECK(told == bounds::failures_told_max);
  CHECK(findings.complete());
}

TEST_CASE("what ends badly after this node was asked to stop is no failure of the job") {
  Findings findings;
  findings.noticed(TimePoint{} + 5s, LocalRank{0});
  findings.stopped(TimePoint{} + 5s);
  findings.noticed(TimePoint{} + 5s + 1us, LocalRank{1});
  findings.asked(LocalRank{0});
  findings.asked(LocalRank{1});
  CHECK(findings.judge(end_of(0, {.signalled = true, .value = SIGSEGV}), place));
  CHECK_FALSE(findings.judge(end_of(1, {.signalled = true, .value = SIGSEGV}, SIGTERM), place));
  CHECK(findings.complete());
}
