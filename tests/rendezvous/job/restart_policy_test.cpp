// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/restart_policy.h"

#include <doctest/doctest.h>

#include "proto/bounds.h"

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};

RestartPolicy::End exit_with(int code, int rank = 0, Duration life = 60s) {
  return {.root = {.rank = Rank{rank}, .status = {.signalled = code < 0, .value = std::abs(code)}},
          .life = life};
}

}  // namespace

TEST_CASE("so many restarts as the budget has, without a pause, and the count goes on") {
  RestartPolicy policy{JobTerms{.id = "j", .restarts_max = 2}};
  CHECK(policy.judge(t0, exit_with(1)) == RestartPolicy::Verdict{true, {}, "restart 1 of 2"});
  CHECK(policy.judge(t0, exit_with(1)) == RestartPolicy::Verdict{true, {}, "restart 2 of 2"});
  CHECK(policy.judge(t0, exit_with(1)) ==
        RestartPolicy::Verdict{false, {}, "all 2 restarts are used"});
  CHECK(policy.restarts_used() == 2);
  CHECK_FALSE(RestartPolicy{JobTerms{.id = "j"}}.judge(t0, exit_with(1)).restart);
}

TEST_CASE("with a window the budget refills, and the worker's count of restarts goes on") {
  RestartPolicy policy{JobTerms{.id = "j", .restarts_max = 1, .restart_window = 600s}};
  CHECK(policy.judge(t0, exit_with(1)).restart);
  CHECK(policy.judge(t0 + 599s, exit_with(1)).reason ==
        "all 1 restarts of the last 600 s are used");
  CHECK(policy.judge(t0 + 600s, exit_with(1)).restart);
  CHECK(policy.restarts_used() == 2);
}

TEST_CASE("the pause doubles with each restart that counts, up to its limit") {
  RestartPolicy policy{
      JobTerms{.id = "j", .restarts_max = 100, .restart_backoff = 2s, .restart_window = 1h}};
  CHECK(policy.judge(t0, exit_with(1)).pause == 2s);
  CHECK(policy.judge(t0, exit_with(1)).pause == 4s);
  CHECK(policy.judge(t0, exit_with(1)).pause == 8s);
  for (int i = 0; i < 20; ++i) policy.judge(t0, exit_with(1));
  CHECK(policy.judge(t0, exit_with(1)).pause == bounds::backoff_max);
  CHECK(policy.judge(t0 + 2h, exit_with(1)).pause == 2s);
}

TEST_CASE("a pause that is longer than the limit stays what it was") {
  RestartPolicy policy{JobTerms{.id = "j", .restarts_max = 3, .restart_backoff = 10min}};
  policy.judge(t0, exit_with(1));
  CHECK(policy.judge(t0, exit_with(1)).pause == 10min);
}

TEST_CASE("a listed end is final, exit codes and signals each by their own number") {
  const JobTerms terms{.id = "j", .restarts_max = 3, .no_restart_codes = {2, -9}};
  CHECK(RestartPolicy{terms}.judge(t0, exit_with(2)).reason ==
        "exit code 2 is among --no-restart-codes");
  CHECK(RestartPolicy{terms}.judge(t0, exit_with(-9)).reason ==
        "signal 9 is among --no-restart-codes");
  CHECK(RestartPolicy{terms}.judge(t0, exit_with(9)).restart);
  CHECK(RestartPolicy{terms}.judge(t0, exit_with(-2)).restart);
}

TEST_CASE(
    "a rank that dies at its start three times in a row ends a job with a window or a pause") {
  RestartPolicy policy{JobTerms{.id = "j", .restarts_max = 9, .restart_window = 600s}};
  CHECK(policy.judge(t0, exit_with(1, 5, 300ms)).restart);
  CHECK(policy.judge(t0, exit_with(1, 5, 300ms)).restart);
  CHECK(policy.judge(t0, exit_with(1, 5, 300ms)).reason ==
        "rank 5 died within 1 s of its start 3 times in a row");
}

TEST_CASE("another rank, or a longer life, is no loop") {
  RestartPolicy policy{JobTerms{.id = "j", .restarts_max = 9, .restart_backoff = 1s}};
  policy.judge(t0, exit_with(1, 5, 300ms));
  policy.judge(t0, exit_with(1, 5, 300ms));
  CHECK(policy.judge(t0, exit_with(1, 6, 300ms)).restart);
  CHECK(policy.judge(t0, exit_with(1, 6, 300ms)).restart);
  CHECK(policy.judge(t0, exit_with(1, 6, 20s)).restart);
  CHECK(policy.judge(t0, exit_with(1, 6, 300ms)).restart);
}

TEST_CASE("without a pause or a window the budget alone decides, as under torchrun") {
  RestartPolicy policy{JobTerms{.id = "j", .restarts_max = 4}};
  for (int i = 0; i < 4; ++i) CHECK(policy.judge(t0, exit_with(1, 5, 1ms)).restart);
}

TEST_CASE("what is left of the budget grows again when a restart is forgotten") {
  RestartPolicy policy{JobTerms{.id = "j", .restarts_max = 2, .restart_window = 600s}};
  CHECK(policy.restarts_left(t0) == 2);
  policy.judge(t0, exit_with(1));
  CHECK(policy.restarts_left(t0 + 599s) == 1);
  CHECK(policy.restarts_left(t0 + 600s) == 2);
  RestartPolicy for_ever{JobTerms{.id = "j", .restarts_max = 2}};
  for_ever.judge(t0, exit_with(1));
  CHECK(for_ever.restarts_left(t0 + 9000s) == 1);
}
