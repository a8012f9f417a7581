// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/console_messages.h"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>

namespace console_messages_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

const ConsoleMessages in_pipe{ConsoleStyle{}};
const ConsoleMessages on_terminal{ConsoleStyle{.terminal = true, .colour = false}};
const ConsoleMessages in_colour{ConsoleStyle{.terminal = true, .colour = true}};

std::string started(const ConsoleMessages& console_messages, int world_size = 4) {
  Config config;
  config.local_world_size = 2;
  link::Sealed sealed;
  sealed.round = RoundNumber{1};
  sealed.group_world_size = 2;
  sealed.world_size = world_size;
  sealed.store_port = 29500;
  const ResolvedProgram program{
      {"/usr/bin/python3", "-u", "train.py"}, "/usr/bin/python3", "train.py"};
  SocketInterfaces sockets;
  sockets.said = "eth0";
  return console_messages.started(config, sealed, program, sockets, "10.0.0.1",
                                  "http://127.0.0.1:29500/");
}

}  // namespace

TEST_CASE("the start line is printed on a terminal and not in a pipe") {
  CHECK(
      started(on_terminal)
          .ends_with(
              ": 2 nodes × 2 workers, node 0, round 1, store 10.0.0.1:29500, gloo on eth0, python "
              "/usr/bin/python3, status page http://127.0.0.1:29500/\n"));
  CHECK(started(on_terminal, 5).find("2 nodes, 5 workers, 2 of them here") != std::string::npos);
  CHECK(started(in_pipe).empty());
  CHECK(on_terminal.finished(std::chrono::seconds(754)).ends_with(": finished after 13 min\n"));
  CHECK(in_pipe.finished(std::chrono::seconds(754)).empty());
}

TEST_CASE("messages are plain in a pipe and coloured on a terminal") {
  CHECK(in_pipe.message(LogLevel::error, "no") == "cpprun: error: no\n");
  CHECK(in_colour.message(LogLevel::error, "no") == "\x1b[31mcpprun: error: no\x1b[0m\n");
  CHECK(in_colour.message(LogLevel::info, "yes") == "cpprun: yes\n");
  CHECK(in_pipe.text(events::Waiting{""}) == "");
  CHECK(in_pipe.text(events::Waiting{"node 1 is missing"}) ==
        "cpprun: waiting: node 1 is missing\n");
}

TEST_CASE("console messages below the log level are not printed") {
  const ConsoleMessages errors{ConsoleStyle{.terminal = true, .most = LogLevel::error}};
  CHECK(errors.message(LogLevel::info, "n") + errors.text(events::Waiting{"w"}) +
            errors.message(LogLevel::warning, "w") + errors.message(LogLevel::debug, "d") ==
        "");
  CHECK(started(errors).empty());
  CHECK(errors.message(LogLevel::error, "e") == "cpprun: error: e\n");
  const ConsoleMessages warnings{ConsoleStyle{.most = LogLevel::warning}};
  CHECK(warnings.message(LogLevel::info, "n").empty());
  CHECK(warnings.text(events::Draining{"rank 5 failed", SIGTERM}) ==
        "cpprun: stopping the workers: rank 5 failed\n");
  CHECK(in_pipe.message(LogLevel::debug, "d").empty());
  const ConsoleMessages everything{ConsoleStyle{.most = LogLevel::debug}};
  CHECK(everything.message(LogLevel::debug, "d") == "cpprun: d\n");
}

TEST_CASE("a message that quotes untrusted text moves no cursor") {
  CHECK(in_pipe.message(LogLevel::info, "SIGTERM came from pid 8 (\x1b[2J\u009b\u202e x)") ==
        "cpprun: SIGTERM came from pid 8 (?[2J?? x)\n");
}

TEST_CASE("failures, drains and kills are printed as sentences") {
  Outcome outcome;
  outcome.rank = Rank{5};
  outcome.local_rank = LocalRank{1};
  outcome.pid = 42;
  outcome.status = {true, SIGSEGV};
  CHECK(in_pipe.text(events::FirstFailure{outcome, "x"}) ==
        "cpprun: rank 5 (local rank 1, pid 42) was killed by SIGSEGV (segmentation fault)\n");
  CHECK(in_pipe.text(events::Draining{"rank 5 failed", SIGTERM}) ==
        "cpprun: stopping the workers: rank 5 failed\n");
  CHECK(in_pipe.text(events::WorkerKilled{LocalRank{0}}) ==
        "cpprun: killing the worker with local rank 0 at once\n");
  CHECK(in_pipe.text(events::WorkerKilled{LocalRank{0}, "", 30s}) ==
        "cpprun: killing the worker with local rank 0, which did not exit within 30 s "
        "(--shutdown-timeout)\n");
}

TEST_CASE("a hang is printed with its groups and a hint only where they help") {
  events::HangFound event{
      .verdict = {.round = RoundNumber{1},
                  .number = 1,
                  .rank = Rank{7},
                  .quiet = 600400ms,
                  .kind = "missing",
                  .sentence = "rank 7 never reached all_reduce number 12 of default_pg, where 15 "
                              "ranks wait; rank 7 is busy in fetch (data.py:12)",
                  .clusters = {"rank 7: is busy in fetch (data.py:12)"}},
      .is_here = true,
      .stacks_file = "logs/stacks-1.txt"};
  CHECK(in_pipe.text(event) ==
        "cpprun: error: the job is hung: no rank made progress for 600 s\n"
        "  rank 7 never reached all_reduce number 12 of default_pg, where 15 ranks wait\n"
        "  rank 7 is busy in fetch (data.py:12)\n"
        "  stack groups:\n"
        "    rank 7: is busy in fetch (data.py:12)\n"
        "  full stacks: logs/stacks-1.txt\n"
        "  hint: read the stack of that rank: a data loader, a lock, or a branch that depends on "
        "the rank\n");
  event.is_here = false;
  CHECK(in_pipe.text(event) ==
        "cpprun: error: the job is hung: no rank made progress for 600 s; rank 7 never reached "
        "all_reduce number 12 of default_pg, where 15 ranks wait; rank 7 is busy in fetch "
        "(data.py:12)\n");
  event.verdict.is_timeout = true;
  CHECK(in_pipe.text(event).starts_with(
      "cpprun: error: a process group of PyTorch timed out; rank "));
  event.is_first_node = true;
  event.verdict.kind = "of a newer cpprun";
  CHECK(in_pipe.text(event).ends_with("  full stacks: logs/stacks-1.txt\n"));
}

TEST_CASE("a near miss is reported with its margin, and with a hint where it is frequent") {
  const auto text = in_pipe.text(events::LeaseNearlyMissed{.silence = 2500ms, .lease = 3s});
  CHECK(
      text.starts_with("cpprun: warning: the master took 2.5 s to respond; 0.5 s later this node "
                       "would have stopped its workers (lease: 3 s)"));
  CHECK(text.find("keep_alive_max_attempt") != std::string::npos);
  CHECK(in_pipe.text(events::LeaseNearlyMissed{3500ms, 3s, 4s})
            .find("3.5 s later this node would have stopped its workers (lease: 3 s)") !=
        std::string::npos);
}

TEST_CASE("a change of leader is reported, and states that workers run on only where they do") {
  const Endpoint from{"a", 29400};
  const Endpoint to{"b", 29400};
  CHECK(in_pipe.text(events::LeaderChanged{from, to, 7, 1900ms, true}) ==
        "cpprun: leadership moved from a:29400 to b:29400 (epoch 7, 1.9 s); workers were not "
        "interrupted\n");
  CHECK(in_pipe.text(events::LeaderChanged{from, to, 7}) ==
        "cpprun: leadership moved from a:29400 to b:29400 (epoch 7)\n");
  CHECK(in_pipe.text(events::LeaderChanged{.from = from, .to = to, .silence = 3400ms}) ==
        "cpprun: leadership moved from a:29400 to b:29400 (3.4 s)\n");
  CHECK(in_pipe.text(events::LeaderChanged{from, to}) ==
        "cpprun: leadership moved from a:29400 to b:29400\n");
}

}  // namespace console_messages_test
