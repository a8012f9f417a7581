// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/policy_replay.h"

#include <doctest/doctest.h>

namespace policy_replay_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view history =
    R"({"at": 60, "cause": "hung", "host": "n7", "rank": 3, "signal": "SIGTERM"}
{"at": 200, "cause": "node_lost", "host": "n8"}
{"at": 300, "cause": "segfault", "host": "n7", "rank": 2, "signal": "SIGSEGV"}
{"at": 400, "cause": "segfault", "host": "n9", "rank": 9, "exit_code": 1}
{"at": 500, "cause": "segfault", "host": "n9", "rank": 9, "exit_code": 1}
)";

PolicyReplay play(const RestartRules& rules) {
  return replay(rules, *read_policy_trace(history, ""));
}

}  // namespace

TEST_CASE("a trace is replayed until the job would have ended") {
  const auto played = play({.max = 1, .budgets = {{"hang", 1}}, .host_limit = {2, {}}});
  CHECK(replay_text(played, {}) ==
        "#    AFTER  FIRST FAILURE                         RESULT\n"
        "1   60.0 s  rank 3 on n7: SIGTERM (hung)          restart 1 of 1 after hang\n"
        "2  200.0 s  node on n8 was lost                   the next round follows\n"
        "3  300.0 s  rank 2 on n7: SIGSEGV (segfault)      restart 1 of 1; n7 is excluded if "
        "enough other nodes are left\n"
        "4  400.0 s  rank 9 on n9: exit code 1 (segfault)  end: all 1 restarts are used\n"
        "5  500.0 s  rank 9 on n9: exit code 1 (segfault)  not reached\n"
        "With --max-restarts=1,hang=1 --max-host-failures=2, the job would have ended at failure "
        "4 of 5, after 2 restarts: all 1 restarts are used.\n");
}

TEST_CASE("sufficient restart rules report the budget that is left") {
  const auto text = replay_text(play({.max = 9, .backoff = 2s}), {});
  CHECK(text.find("restart 2 of 9, after 4.0 s") != std::string::npos);
  CHECK(
      text.ends_with("With --max-restarts=9 --restart-backoff=2, the job would have continued "
                     "after all 5 failures; 4 restarts used, 5 left for the whole job.\n"));
  CHECK(replay_text(replay({}, {}), {}) == "the trace has no failures\n");
}

}  // namespace policy_replay_test
