// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/report.h"

#include <doctest/doctest.h>

#include "launcher/report/bounds.h"

namespace attempts_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

const WallTime t0 = WallTime{} + 1000s;

link::Sealed round(std::uint32_t number) {
  link::Sealed sealed;
  sealed.round = RoundNumber{number};
  sealed.restart_count = static_cast<int>(number) - 1;
  return sealed;
}

link::Failure failure(int rank, const char* cause, bool consequence = false) {
  link::Failure result;
  result.rank = Rank{rank};
  result.host = "node0";
  result.cause = cause;
  result.time = t0;
  result.consequence = consequence;
  return result;
}

}  // namespace

TEST_CASE("every attempt is kept with its times, its reason, and its first failure") {
  Attempts attempts;
  attempts.begin(t0, round(1));
  attempts.failed(failure(1, "peer_gone", true));
  attempts.failed(failure(0, "segfault"));
  attempts.failed(failure(2, "aborted"));
  attempts.draining("rank 1 failed");
  attempts.draining("again");
  attempts.begin(t0 + 5s, round(2));
  const auto list = attempts.list(t0 + 9s);
  REQUIRE(list.size() == 2);
  CHECK(list[0] == Attempt{.round = RoundNumber{1},
                           .restart = 0,
                           .began = t0,
                           .ended = t0 + 5s,
                           .reason = "rank 1 failed",
                           .failure = failure(0, "segfault")});
  CHECK(list[1].restart == 1);
  CHECK(list[1].ended == t0 + 9s);
  CHECK_FALSE(list[1].failure.has_value());
}

TEST_CASE("the coordinator's verdict overrides what one node has seen") {
  Attempts attempts;
  attempts.judged(failure(3, "killed"));
  attempts.begin(t0, round(1));
  attempts.failed(failure(1, "peer_gone", true));
  attempts.judged(failure(3, "killed"));
  CHECK(attempts.list(t0)[0].failure == failure(3, "killed"));
}

TEST_CASE("the coordinator's verdict in the next seal replaces what this node saw") {
  Attempts attempts;
  attempts.begin(t0, round(1));
  attempts.failed(failure(1, "peer_gone", true));
  auto second = round(2);
  second.failed_before = failure(0, "node_lost");
  attempts.begin(t0, second);
  CHECK(attempts.list(t0)[0].failure == failure(0, "node_lost"));
  CHECK_FALSE(attempts.list(t0)[1].failure);
  // The node was in none of the rounds between.
  auto fifth = round(5);
  fifth.failed_before = failure(2, "killed");
  attempts.begin(t0, fifth);
  CHECK_FALSE(attempts.list(t0)[1].failure);
}

TEST_CASE("the node of the worker that failed first keeps the whole message") {
  Attempts attempts;
  attempts.begin(t0, round(1));
  auto own = failure(1, "python_exception");
  own.message = "a long one";
  attempts.failed(own);
  auto second = round(2);
  second.failed_before = failure(1, "python_exception");
  second.failed_before->message = "a lo…";
  attempts.begin(t0, second);
  CHECK(attempts.list(t0)[0].failure == own);
}

TEST_CASE("of very many attempts the first and the last are kept, and the others counted") {
  Attempts attempts;
  constexpr auto kept = bounds::first_attempts_kept_max + bounds::last_attempts_kept_max;
  for (std::uint32_t i = 1; i <= kept + 50; ++i) attempts.begin(t0, round(i));
  const auto list = attempts.list(t0);
  CHECK(list.size() == kept);
  CHECK(attempts.left_out() == 50);
  CHECK(list[bounds::first_attempts_kept_max - 1].round.value == bounds::first_attempts_kept_max);
  CHECK(list[bounds::first_attempts_kept_max].round.value == bounds::first_attempts_kept_max + 51);
  CHECK(list.back().round.value == kept + 50);
}

}  // namespace attempts_test
