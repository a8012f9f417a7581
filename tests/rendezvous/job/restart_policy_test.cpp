// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/restart_policy.h"

#include <doctest/doctest.h>

#include "proto/bounds.h"

namespace restart_policy_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};

RestartPolicy::End exit_with(int code, int rank = 0, Duration life = 60s) {
  return {.root = {.rank = Rank{rank}, .status = {.signalled = code < 0, .value = std::abs(code)}},
          .life = life};
}

RestartPolicy::End ended_by(std::string cause, std::string host = "host-b") {
  auto end = exit_with(1);
  end.root.cause = std::move(cause);
  end.root.host = std::move(host);
  end.lost = end.root.cause == link::node_lost;
  return end;
}

RestartPolicy::End after_step(std::uint64_t step, std::uint64_t checkpoint_step = 0) {
  auto end = exit_with(1, 0, 10s);
  end.reached = {step, checkpoint_step};
  return end;
}

}  // namespace

TEST_CASE("the budget allows its number of restarts, without a delay, and the count goes up") {
  RestartPolicy policy{RestartRules{.max = 2}};
  CHECK(policy.judge(t0, exit_with(1)) == RestartPolicy::Verdict{true, {}, "restart 1 of 2", true});
  CHECK(policy.judge(t0, exit_with(1)) == RestartPolicy::Verdict{true, {}, "restart 2 of 2", true});
  CHECK(policy.judge(t0, exit_with(1)) ==
        RestartPolicy::Verdict{false, {}, "all 2 restarts are used"});
  CHECK(policy.restarts_used() == 2);
  CHECK_FALSE(RestartPolicy{RestartRules{}}.judge(t0, exit_with(1)).restart);
}

TEST_CASE("with a window the budget refills, and the worker's restart count keeps growing") {
  RestartPolicy policy{RestartRules{.max = 1, .window = 600s}};
  CHECK(policy.judge(t0, exit_with(1)).restart);
  CHECK(policy.judge(t0 + 599s, exit_with(1)).reason ==
        "all 1 restarts of the last 600 s are used");
  CHECK(policy.judge(t0 + 600s, exit_with(1)).restart);
  CHECK(policy.restarts_used() == 2);
}

TEST_CASE("the delay doubles with each restart that counts, up to its limit") {
  RestartPolicy policy{RestartRules{.max = 100, .backoff = 2s, .window = 1h}};
  CHECK(policy.judge(t0, exit_with(1)).pause == 2s);
  CHECK(policy.judge(t0, exit_with(1)).pause == 4s);
  CHECK(policy.judge(t0, exit_with(1)).pause == 8s);
  for (int i = 0; i < 20; ++i) policy.judge(t0, exit_with(1));
  CHECK(policy.judge(t0, exit_with(1)).pause == bounds::backoff_max);
  CHECK(policy.judge(t0 + 2h, exit_with(1)).pause == 2s);
}

TEST_CASE("an initial delay above the limit is unchanged") {
  RestartPolicy policy{RestartRules{.max = 3, .backoff = 10min}};
  policy.judge(t0, exit_with(1));
  CHECK(policy.judge(t0, exit_with(1)).pause == 10min);
}

TEST_CASE("an end listed as final ends the job, with exit codes and signals told apart") {
  const RestartRules terms{.max = 3, .final_codes = {2, -9}};
  CHECK(RestartPolicy{terms}.judge(t0, exit_with(2)).reason ==
        "exit code 2 is listed in --no-restart-codes");
  CHECK(RestartPolicy{terms}.judge(t0, exit_with(-9)).reason ==
        "signal 9 is listed in --no-restart-codes");
  CHECK(RestartPolicy{terms}.judge(t0, exit_with(9)).restart);
  CHECK(RestartPolicy{terms}.judge(t0, exit_with(-2)).restart);
}

TEST_CASE(
    "with a window or a delay, a rank that dies at its start three times in a row ends the job") {
  RestartPolicy policy{RestartRules{.max = 9, .window = 600s}};
  CHECK(policy.judge(t0, exit_with(1, 5, 300ms)).restart);
  CHECK(policy.judge(t0, exit_with(1, 5, 300ms)).restart);
  CHECK(policy.judge(t0, exit_with(1, 5, 300ms)).reason ==
        "rank 5 died within 1 s of its start 3 times in a row");
}

TEST_CASE("another rank, or a longer life, is not a restart loop") {
  RestartPolicy policy{RestartRules{.max = 9, .backoff = 1s}};
  policy.judge(t0, exit_with(1, 5, 300ms));
  policy.judge(t0, exit_with(1, 5, 300ms));
  CHECK(policy.judge(t0, exit_with(1, 6, 300ms)).restart);
  CHECK(policy.judge(t0, exit_with(1, 6, 300ms)).restart);
  CHECK(policy.judge(t0, exit_with(1, 6, 20s)).restart);
  CHECK(policy.judge(t0, exit_with(1, 6, 300ms)).restart);
}

TEST_CASE("without a delay or a window the budget alone decides, as with torchrun") {
  RestartPolicy policy{RestartRules{.max = 4}};
  for (int i = 0; i < 4; ++i) CHECK(policy.judge(t0, exit_with(1, 5, 1ms)).restart);
}

TEST_CASE("the rest of the budget grows again when a restart leaves the window") {
  RestartPolicy policy{RestartRules{.max = 2, .window = 600s}};
  CHECK(policy.restarts_left(t0) == 2);
  policy.judge(t0, exit_with(1));
  CHECK(policy.restarts_left(t0 + 599s) == 1);
  CHECK(policy.restarts_left(t0 + 600s) == 2);
  RestartPolicy for_ever{RestartRules{.max = 2}};
  for_ever.judge(t0, exit_with(1));
  CHECK(for_ever.restarts_left(t0 + 9000s) == 1);
}

TEST_CASE("a cause with its own budget does not use the budget of the job") {
  RestartPolicy policy{RestartRules{.max = 1, .budgets = {{"hang", 1}, {"killed", 0}}}};
  CHECK(policy.judge(t0, ended_by("hung")).reason == "restart 1 of 1 after hang");
  CHECK(policy.restarts_left(t0) == 1);
  CHECK(policy.restarts_left(t0, policy.rules().budgets[0]) == 0);
  CHECK(policy.judge(t0, ended_by("peer_silent")).reason == "all 1 restarts after hang are used");
  CHECK(policy.judge(t0, ended_by("killed")).reason == "no restart after killed is allowed");
  CHECK(policy.judge(t0, ended_by("segfault")).reason == "restart 1 of 1");
  CHECK(policy.judge(t0, ended_by("")).reason == "all 1 restarts are used");
  CHECK(policy.restarts_used() == 2);
}

TEST_CASE(
    "an unlimited budget is never used up, but a rank that always dies at its start ends the job") {
  RestartPolicy policy{RestartRules{.budgets = {{"preempt", {}}}}};
  for (int i = 0; i < 1000; ++i) {
    CHECK(policy.judge(t0, ended_by("terminated")).reason ==
          "restarts after preempt are unlimited");
  }
  CHECK(policy.restarts_left(t0, policy.rules().budgets[0]) == std::nullopt);
  CHECK(policy.judge(t0, ended_by("segfault")).reason == "no restart is allowed");
  auto at_once = ended_by("terminated");
  at_once.life = 10ms;
  CHECK(policy.judge(t0, at_once).restart);
  CHECK(policy.judge(t0, at_once).restart);
  CHECK_FALSE(policy.judge(t0, at_once).restart);
}

TEST_CASE("a lost node costs nothing unless its cause has a budget") {
  RestartPolicy free{RestartRules{.max = 1}};
  for (int i = 0; i < 5; ++i) {
    const auto verdict = free.judge(t0, ended_by("node_lost"));
    CHECK(verdict.restart);
    CHECK_FALSE(verdict.counts);
  }
  CHECK(free.restarts_used() == 0);
  RestartPolicy bounded{RestartRules{.max = 1, .budgets = {{"node", 1}}, .backoff = 2s}};
  const auto verdict = bounded.judge(t0, ended_by("node_lost"));
  CHECK(verdict.counts);
  CHECK(verdict.pause == 2s);
  CHECK(bounded.judge(t0, ended_by("node_lost")).reason == "all 1 restarts after node are used");
}

TEST_CASE("an exit code listed as free costs nothing") {
  RestartPolicy policy{RestartRules{.max = 1, .free_codes = {75, -12}}};
  for (int i = 0; i < 5; ++i) {
    CHECK(policy.judge(t0, exit_with(75)).reason ==
          "a restart after exit code 75 does not count (--free-restart-codes)");
    CHECK(policy.judge(t0, exit_with(-12)).counts);
  }
  CHECK(policy.restarts_left(t0) == 1);
  CHECK(policy.restarts_used() == 10);
  for (int i = 0; i < 2; ++i) CHECK(policy.judge(t0, exit_with(75, 4, 1ms)).restart);
  CHECK_FALSE(policy.judge(t0, exit_with(75, 4, 1ms)).restart);
}

TEST_CASE("too many restarts in a row without progress end the job") {
  struct Round {
    std::uint64_t step, checkpoint_step;
    bool restart;
  };
  const auto play = [](const std::vector<Round>& rounds) {
    RestartPolicy policy{RestartRules{.max = 99, .fruitless_max = 2}};
    std::string last;
    for (const Round& each : rounds) {
      CAPTURE(&each - rounds.data());
      const auto verdict = policy.judge(t0, after_step(each.step, each.checkpoint_step));
      CHECK(verdict.restart == each.restart);
      last = verdict.reason;
    }
    return last;
  };
  // The first round was no restart.
  CHECK(play({{0, 0, true}, {0, 0, true}, {0, 0, false}}) ==
        "the last 2 restarts made no progress beyond 60 s (--max-no-progress=2)");
  CHECK(play({{50, 0, true}, {40, 0, true}, {51, 0, true}, {51, 0, true}, {30, 0, false}}) ==
        "the last 2 restarts made no progress beyond step 51 (--max-no-progress=2)");
  // Steps after the last checkpoint are lost and do not count.
  CHECK(play({{150, 100, true}, {180, 100, true}, {190, 100, false}}) ==
        "the last 2 restarts made no progress beyond the checkpoint of step 100 "
        "(--max-no-progress=2)");
  CHECK(play({{150, 100, true}, {180, 100, true}, {250, 200, true}, {250, 200, true}}) ==
        "restart 4 of 99");
}

TEST_CASE("membership changes are not restarts without progress") {
  RestartPolicy policy{RestartRules{.max = 9, .fruitless_max = 2}};
  CHECK(policy.judge(t0, after_step(0)).restart);
  auto lost = ended_by("node_lost");
  lost.life = 1s;
  for (int i = 0; i < 5; ++i) CHECK(policy.judge(t0, lost).restart);
  CHECK(policy.judge(t0, after_step(0)).restart);
  CHECK_FALSE(policy.judge(t0, after_step(0)).restart);
}

TEST_CASE("a round whose workers send no heartbeats has made progress if it lived for a minute") {
  RestartPolicy policy{RestartRules{.max = 99, .fruitless_max = 1}};
  CHECK(policy.judge(t0, exit_with(1, 0, 59s)).restart);
  CHECK(policy.judge(t0, exit_with(1, 0, 60s)).restart);
  CHECK_FALSE(policy.judge(t0, exit_with(1, 0, 59s)).restart);
}

TEST_CASE("a host with too many failures within the window is named, once each time") {
  RestartPolicy policy{RestartRules{.max = 99, .host_limit = {2, 600s}}};
  CHECK_FALSE(policy.judge(t0, ended_by("segfault")).failing_host);
  CHECK_FALSE(policy.judge(t0, ended_by("segfault", "host-c")).failing_host);
  CHECK_FALSE(policy.judge(t0 + 600s, ended_by("segfault")).failing_host);
  CHECK(policy.judge(t0 + 700s, ended_by("node_lost")).failing_host == "host-b");
  CHECK_FALSE(policy.judge(t0 + 701s, ended_by("segfault")).failing_host);
  // A consequence is not blamed.
  auto followed = ended_by("peer_gone", "host-c");
  followed.root.consequence = true;
  for (int i = 0; i < 5; ++i) CHECK_FALSE(policy.judge(t0 + 702s, followed).failing_host);
}

TEST_CASE("a resumed job has the same restarts left") {
  RestartPolicy first{RestartRules{.max = 2, .window = 600s, .fruitless_max = 3}};
  CHECK(first.judge(t0 + 1h, after_step(10)).restart);
  RestartPolicy second{first.rules(), first.state()};
  CHECK(second.restarts_used() == 1);
  CHECK(second.judge(t0 + 1h + 60s, after_step(10)).reason == "restart 2 of 2");
  CHECK(second.judge(t0 + 1h + 70s, after_step(10)).reason ==
        "all 2 restarts of the last 600 s are used");
  // The restart of the first policy counts in the third as well.
  RestartPolicy third{first.rules(), second.state()};
  CHECK(third.judge(t0 + 1h + 605s, after_step(20)).restart);
}

}  // namespace restart_policy_test
