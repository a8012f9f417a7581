// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/report.h"

#include <doctest/doctest.h>

#include <csignal>

#include "tests/launcher/failure/diagnosed.h"

namespace report_test {

using namespace cpprun;

namespace {

constexpr WallTime noon{std::chrono::seconds(1795262400)};  // 2026-11-21 12:00:00 UTC

Evidence ended(int local, link::ExitStatus status, int our_signal = 0) {
  Evidence evidence;
  evidence.outcome.local_rank = LocalRank{local};
  evidence.outcome.rank = Rank{4 + local};
  evidence.outcome.pid = 100 + local;
  evidence.outcome.status = status;
  evidence.outcome.our_signal = our_signal;
  evidence.outcome.time = noon;
  evidence.executable = "/usr/bin/python3";
  return evidence;
}

ReportFacts facts_of(std::vector<Evidence> evidence) {
  ReportFacts facts;
  facts.job = "job7";
  facts.entrypoint = "train.py";
  facts.program = {"/usr/bin/python3", "-u", "train.py"};
  facts.host = "node1";
  facts.group_rank = GroupRank{1};
  for (Evidence& each : evidence) facts.ends.push_back(testing::diagnosed(std::move(each)));
  facts.root = failure_of(facts.ends.back(), GroupRank{1}, "node1");
  facts.utc_offset_seconds = 3600;
  facts.started = noon - std::chrono::seconds(95);
  facts.ended = noon;
  return facts;
}

}  // namespace

TEST_CASE("the report of a local failure has all facts, in torchrun's layout") {
  auto root = ended(1, {false, 3});
  root.last_lines = {"Traceback:", "ValueError: bad"};
  auto facts = facts_of({ended(0, {true, SIGTERM}, SIGTERM), root});
  facts.logs = "/logs/job7_x";
  CHECK(report(facts) ==
        "\n"
        "============================================================\n"
        "train.py FAILED\n"
        "------------------------------------------------------------\n"
        "Failures:\n"
        "  1 other rank of this node was stopped (rank 4)\n"
        "------------------------------------------------------------\n"
        "Root Cause (first observed failure):\n"
        "[0]:\n"
        "  time      : 2026-11-21_13:00:00\n"
        "  host      : node1\n"
        "  rank      : 5 (local_rank: 1)\n"
        "  exitcode  : 3 (pid: 101)\n"
        "  error_file: <N/A>\n"
        "  traceback : exited with code 3\n"
        "  last lines of its stderr:\n"
        "    Traceback:\n"
        "    ValueError: bad\n"
        "============================================================\n"
        "cpprun: ran for 95 s: /usr/bin/python3 -u train.py\n"
        "cpprun: the logs are in /logs/job7_x\n"
        "cpprun: job job7 failed: rank 5 (local rank 1, pid 101, on node1) exited with code 3\n"
        "cpprun: why: exited with an error code; cpprun found no cause [silent_exit]\n"
        "cpprun: hint: see the end of its output; --redirects 3 keeps stdout and stderr in log "
        "files\n");
}

TEST_CASE("after a timeout of PyTorch the hint is the verdict, if there is one") {
  auto root = ended(1, {false, 1});
  root.last_lines = {"RuntimeError: Timed out waiting 9ms for recv operation to complete"};
  auto facts = facts_of({root});
  CHECK(report(facts).find("hint: run cpprunctl stacks while the job hangs, or start it with "
                           "--hang-timeout") != std::string::npos);
  facts.hang = events::HangFound{.verdict = {.is_timeout = true}};
  CHECK(report(facts).find("hint: see the verdict above") != std::string::npos);
}

TEST_CASE("a recorded traceback is shown instead of the last lines") {
  auto root = ended(0, {false, 1});
  root.last_lines = {"noise"};
  root.error_file = "/logs/error.json";
  root.error_text = R"({"message": {"message": "ValueError: bad",
                        "extraInfo": {"py_callstack": "Traceback:\n  here\nValueError: bad\n"}}})";
  const auto text = report(facts_of({root}));
  CHECK(text.find("  error_file: /logs/error.json\n"
                  "  traceback : exited with code 1\n"
                  "  Traceback:\n"
                  "    here\n"
                  "  ValueError: bad\n") != std::string::npos);
  CHECK(text.find("noise") == std::string::npos);
  CHECK(text.find("Failures:\n  <NO_OTHER_FAILURES>\n") != std::string::npos);
}

TEST_CASE("a failure on another node is reported with that node's facts") {
  auto facts = facts_of({ended(0, {true, SIGTERM}, SIGTERM)});
  facts.root = link::Failure{.rank = Rank{0},
                             .local_rank = LocalRank{0},
                             .group_rank = GroupRank{0},
                             .host = "node0",
                             .pid = 77,
                             .status = {true, SIGSEGV},
                             .time = noon,
                             .message = "last words",
                             .cause = "segfault"};
  facts.master = true;
  const auto text = report(facts);
  CHECK(
      text.find("\ncpprun: job job7 failed: rank 0 (local rank 0, pid 77, on node0) was killed by "
                "SIGSEGV (segmentation fault)\ncpprun: why: ") != std::string::npos);
  CHECK(text.find("  host      : node0\n") != std::string::npos);
  CHECK(text.find("  exitcode  : -11 (pid: 77) (SIGSEGV)\n") != std::string::npos);
  CHECK(text.find("  traceback : was killed by SIGSEGV (segmentation fault)\n  last words\n") !=
        std::string::npos);
  CHECK(text.find("  1 other rank of this node was stopped (rank 4)\n") != std::string::npos);
}

TEST_CASE("a node that is neither the master nor the cause prints one line") {
  auto facts = facts_of({ended(0, {true, SIGTERM}, SIGTERM)});
  facts.root = link::Failure{.rank = Rank{0},
                             .host = "node0",
                             .pid = 77,
                             .status = {true, SIGKILL},
                             .time = noon,
                             .cause = "out_of_memory"};
  facts.group_rank = GroupRank{1};
  facts.root->group_rank = GroupRank{0};
  CHECK(report(facts) ==
        "cpprun: job job7 failed: rank 0 (local rank 0, pid 77, on node0) was killed by SIGKILL "
        "(killed) [out_of_memory]; this is node 1 on node1\n");
  facts.colour = true;
  CHECK(report(facts).starts_with("\x1b[1;31mcpprun: job job7 failed: "));
}

TEST_CASE("a rank that exited early is named on its own node, on the master and on any other") {
  auto victim = ended(0, {false, 1});
  victim.last_lines = {"RuntimeError: Connection closed by peer"};
  auto facts = facts_of({victim});
  facts.root =
      link::Failure{.rank = Rank{2},
                    .group_rank = GroupRank{1},
                    .host = "node1",
                    .pid = 77,
                    .status = {false, 1},
                    .time = noon,
                    .message = "exited with code 0 after 12.3 s while others still communicated",
                    .cause = std::string(left_early)};
  const std::string headline =
      "cpprun: job job7 failed: rank 2 (local rank 0, pid 77, on node1) exited with code 0";
  const std::string why =
      "\ncpprun: why: the rank exited with code 0 after 12.3 s while others still communicated; it "
      "probably ran out of data [left_early]\n";
  CHECK(report(facts).find(headline + why) != std::string::npos);
  facts.group_rank = GroupRank{2};
  CHECK(report(facts) == headline + " [left_early]; this is node 2 on node1\n");
  facts.group_rank = GroupRank{0};
  facts.master = true;
  const auto text = report(facts);
  CHECK(text.find(headline + why) != std::string::npos);
  CHECK(text.find("  exitcode  : 0 (pid: 77)\n") != std::string::npos);
  CHECK(text.find("  traceback : exited with code 0 after 12.3 s") != std::string::npos);
  CHECK(text.find("as a consequence of the failure of rank 2: a peer closed the connection") !=
        std::string::npos);
}

TEST_CASE("ranks that cpprun stopped share one line") {
  std::vector<Evidence> evidence;
  for (const int local : {6, 0, 2, 1, 5}) {
    evidence.push_back(ended(local, {true, SIGTERM}, SIGTERM));
  }
  evidence.push_back(ended(3, {false, 1}));
  const auto text = report(facts_of(evidence));
  CHECK(text.find("Failures:\n  5 other ranks of this node were stopped (4-6, 9-10)\n---") !=
        std::string::npos);
}

TEST_CASE("a job that failed within a minute does not print its use of time") {
  auto facts = facts_of({ended(1, {false, 3})});
  facts.time = TimeUse{.wall = std::chrono::seconds(59)};
  CHECK(report(facts).find("cpprun: time: ") == std::string::npos);
  facts.time->wall = std::chrono::seconds(60);
  CHECK(report(facts).find("cpprun: time: ") != std::string::npos);
}

TEST_CASE("a victim that failed by itself is named as a consequence") {
  auto victim = ended(0, {false, 1});
  victim.last_lines = {"RuntimeError: Connection closed by peer"};
  const auto text = report(facts_of({victim, ended(1, {true, SIGSEGV})}));
  CHECK(text.find("  traceback : exited with code 1\n"
                  "  RuntimeError: Connection closed by peer\n"
                  "  as a consequence of the failure of rank 5: a peer closed the connection\n") !=
        std::string::npos);
}

TEST_CASE("consequences on other nodes are named, and the rest is counted") {
  auto facts = facts_of({ended(1, {false, 3})});
  facts.master = true;
  facts.consequences = {
      {.rank = Rank{4}, .group_rank = GroupRank{1}, .status = {false, 1}},
      {.rank = Rank{0}, .group_rank = GroupRank{0}, .status = {true, SIGABRT}},
      {.rank = Rank{9}, .group_rank = GroupRank{2}, .status = {false, 1}},
  };
  facts.consequence_count = 5;
  CHECK(report(facts).find("cpprun: consequences on other nodes: rank 0 (node 0) was killed by "
                           "SIGABRT (aborted), rank 9 (node 2) exited with code 1, 2 more\n") !=
        std::string::npos);
}

TEST_CASE("the report shows the end of many last lines") {
  auto root = ended(0, {false, 1});
  root.last_lines.assign(150, "frame");
  root.last_lines.push_back("the end");
  const auto text = report(facts_of({root}));
  CHECK(text.find("    the end\n") != std::string::npos);
  CHECK(text.size() < 1500);
}

TEST_CASE("the report points to the console only if the worker's stderr is the console") {
  auto root = ended(0, {false, 1});
  const std::string pointer = "see its output above";
  CHECK_FALSE(report(facts_of({root})).find(pointer) != std::string::npos);
  root.on_console = true;
  CHECK(report(facts_of({root})).find(pointer) != std::string::npos);
}

TEST_CASE("hundreds of consequences do not hide the cause") {
  std::vector<Evidence> evidence(300, ended(0, {true, SIGABRT}));
  evidence.push_back(ended(1, {false, 1}));
  const auto text = report(facts_of(evidence));
  CHECK(text.find("  ... and 284 more workers of this node\n") != std::string::npos);
  CHECK(text.size() < 8000);
}

TEST_CASE("local time follows the machine's offset") {
  CHECK(local_time_text(noon, 0) == "2026-11-21_12:00:00");
  CHECK(local_time_text(noon, -12 * 3600 - 1) == "2026-11-20_23:59:59");
}

}  // namespace report_test
