// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/hang/progress_monitor.h"

#include <doctest/doctest.h>

#include <string>

namespace progress_monitor_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
constexpr LocalRank first{0};

// One worker, read every 3 s. `cpu_percent` and the others change what the next read finds.
struct Stage {
  explicit Stage(std::optional<Duration> timeout = 60s) : monitor(timeout) {
    monitor.started(t0, first);
  }
  // Returns whether the stacks are needed.
  bool read(int cpu_percent = 0) {
    now = monitor.next_deadline().value();
    REQUIRE(monitor.take_due(now));
    signs.cpu += monitor.interval() * cpu_percent / 100;
    return monitor.heard(now, {signs});
  }
  // The worker is in Python; `functions` from the innermost to the outermost. `threads`: the text
  // of others, and then the main thread waits for them.
  void observe(const std::vector<std::string>& functions, Duration took = 0ms,
               const std::string& threads = "", Duration ping = 0ms) {
    monitor.observed(now, {seen(functions, took, threads, ping)});
  }
  static hang::Observation seen(const std::vector<std::string>& functions, Duration took,
                                const std::string& threads = "", Duration ping = 0ms) {
    const char state = threads.empty() ? 'R' : 'S';
    std::string text = threads + "Thread 0x00007f0000000000 (most recent call first):\n";
    for (const std::string& each : functions) {
      text += "  File \"train.py\", line 3 in " + each + "\n";
    }
    return {.local_rank = first,
            .pid = 7,
            .process = {.pid = 7,
                        .state = state,
                        .threads = {{.tid = 7,
                                     .state = state,
                                     .cpu_meanwhile = threads.empty() ? Duration(1s) : 0s}},
                        .thread_count = 1},
            .interval = 1s,
            .ping = {.kind = hang::Answer::Kind::answered, .took = ping},
            .traceback = {
                .kind = hang::Answer::Kind::answered, .body = text, .reason = {}, .took = took}};
  }
  Duration quiet() const { return monitor.quiet(now); }

  ProgressMonitor monitor;
  ProgressSigns signs{.local_rank = first};
  TimePoint now = t0;
};

}  // namespace

TEST_CASE("without --hang-timeout nothing is read") {
  ProgressMonitor monitor(std::nullopt);
  monitor.started(t0, first);
  CHECK_FALSE(monitor.next_deadline());
  CHECK(monitor.quiet(t0 + 24h) == 0s);
}

TEST_CASE("the workers are read twenty times in the timeout, at most once a second") {
  CHECK(ProgressMonitor(60s).interval() == 3s);
  CHECK(ProgressMonitor(5s).interval() == 1s);
  CHECK(ProgressMonitor(1h).interval() == 15s);
}

TEST_CASE("a worker that shows nothing is quiet since it was started") {
  Stage stage;
  for (int i = 1; i <= 30; ++i) {
    CHECK_FALSE(stage.read());
    CHECK(stage.quiet() == i * 3s);
  }
}

TEST_CASE("heartbeats, output, bytes and busy child processes are progress") {
  Stage stage;
  stage.read();
  SUBCASE("heartbeats") {
    stage.signs.beats = 1;
  }
  SUBCASE("output") {
    stage.signs.last_output = t0 + 6s;
  }
  SUBCASE("bytes") {
    stage.signs.bytes = 5000;
  }
  SUBCASE("memory that grows") {
    stage.signs.memory_kib = 2000;
  }
  SUBCASE("bytes of child processes") {
    stage.signs.children_bytes = 1 << 20;
  }
  SUBCASE("child processes that compute") {
    stage.signs.children_cpu = 1s;
  }
  stage.read();
  CHECK(stage.quiet() == 0s);
  stage.read();
  CHECK(stage.quiet() == 3s);
}

TEST_CASE("a thread that polls, and a logger that writes a line now and then, are no progress") {
  Stage stage;
  for (int i = 0; i < 5; ++i) {
    stage.signs.bytes += 100;
    stage.signs.children_bytes += 10'000;
    CHECK_FALSE(stage.read(/*cpu_percent=*/1));
  }
  CHECK(stage.quiet() == 15s);
}

TEST_CASE("a worker that computes shows ever new stacks") {
  Stage stage;
  for (int i = 0; i < 30; ++i) {
    REQUIRE(stage.read(/*cpu_percent=*/90));
    stage.observe({"f" + std::to_string(i % 7), "main"}, 6ms);
    CHECK(stage.quiet() < 9s);
  }
}

TEST_CASE("all samples of an observation count") {
  Stage stage;
  const std::string head = "Thread 0x00007f0000000000 (most recent call first):\n  File \"a.py\", ";
  for (int i = 0; i < 20; ++i) {
    REQUIRE(stage.read(/*cpu_percent=*/90));
    hang::Observation seen = stage.seen({"count", "main"}, 6ms);
    seen.later_tracebacks = {head + "line 4 in count\n", head + "line 5 in words\n"};
    stage.monitor.observed(stage.now, {seen});
    CHECK(stage.quiet() == 0s);
  }
}

TEST_CASE("a main thread may wait for a thread that computes") {
  Stage stage;
  const auto thread_in = [](int line) {
    return "Thread 0x00007f0000000001 (most recent call first):\n  File \"data.py\", line " +
           std::to_string(line) + " in rows\n\n";
  };
  for (int i = 0; i < 20; ++i) {
    REQUIRE(stage.read(/*cpu_percent=*/90));
    stage.observe({"wait", "main"}, 6ms, thread_in(1 + i % 5));
    CHECK(stage.quiet() < 9s);
  }
  for (int i = 0; i < 20; ++i) {
    REQUIRE(stage.read(/*cpu_percent=*/90));
    stage.observe({"wait", "main"}, 6ms, thread_in(1));
  }
  CHECK(stage.quiet() >= 54s);
}

TEST_CASE("memory that shrinks is no progress, and memory that is used again is") {
  Stage stage;
  stage.signs.memory_kib = 100'000;
  stage.read();
  for (int i = 1; i <= 5; ++i) {
    stage.signs.memory_kib -= 10'000;
    stage.read();
    CHECK(stage.quiet() == i * 3s);
  }
  stage.signs.memory_kib += 2000;
  stage.read();
  CHECK(stage.quiet() == 0s);
}

TEST_CASE("a loop in Python shows the same stack and holds the GIL") {
  Stage stage;
  for (int i = 1; i <= 20; ++i) {
    REQUIRE(stage.read(/*cpu_percent=*/90));
    stage.observe({"spin", "main"}, 6ms);
    CHECK(stage.quiet() == i * 3s);
  }
}

TEST_CASE("a long operation of PyTorch shows the same stack and releases the GIL") {
  Stage stage;
  for (int i = 0; i < 20; ++i) {
    REQUIRE(stage.read(/*cpu_percent=*/90));
    stage.observe({"compile", "main"}, 0ms);
    CHECK(stage.quiet() <= 9s);
  }
}

TEST_CASE("on an overloaded machine late answers do not tell a loop from an operation") {
  Stage stage;
  for (int i = 0; i < 20; ++i) {
    REQUIRE(stage.read(/*cpu_percent=*/90));
    stage.observe({"linear", "main"}, 70ms, "", 40ms);
    CHECK(stage.quiet() <= 9s);
  }
}

TEST_CASE("a worker that got little CPU and does not answer makes progress, as far as is known") {
  using Kind = hang::Answer::Kind;
  const auto quiet_after = [](char state, Duration cpu, Kind ping) {
    Stage stage;
    for (int i = 0; i < 20; ++i) {
      REQUIRE(stage.read(/*cpu_percent=*/20));
      auto silent = Stage::seen({}, 0ms);
      silent.process.state = silent.process.threads[0].state = state;
      silent.process.threads[0].cpu_meanwhile = cpu;
      silent.ping = {.kind = ping};
      silent.traceback = {.kind = Kind::silent};
      stage.monitor.observed(stage.now, {silent});
    }
    return stage.quiet();
  };
  CHECK(quiet_after('R', 100ms, Kind::answered) == 0s);
  CHECK(quiet_after('R', 100ms, Kind::silent) == 0s);
  CHECK(quiet_after('R', 900ms, Kind::answered) == 60s);
  CHECK(quiet_after('S', 0ms, Kind::answered) == 60s);
}

TEST_CASE("a worker that computes and whose stack cannot be read makes progress") {
  Stage stage;
  for (int i = 0; i < 20; ++i) {
    REQUIRE(stage.read(/*cpu_percent=*/90));
    stage.monitor.observed(stage.now, {{.local_rank = first, .pid = 7}});
    CHECK(stage.quiet() == 0s);
  }
}

TEST_CASE("a worker that computes makes progress, as far as is known, if no stacks arrive") {
  Stage stage;
  for (int i = 0; i < 20; ++i) {
    REQUIRE(stage.read(/*cpu_percent=*/90));
    stage.monitor.observed(stage.now, {});
    CHECK(stage.quiet() == 0s);
  }
  // An idle worker does not.
  stage.read();
  stage.monitor.observed(stage.now, {});
  CHECK(stage.quiet() == 3s);
}

TEST_CASE("what a worker computes to answer is no progress") {
  Stage stage;
  REQUIRE(stage.read(/*cpu_percent=*/90));
  stage.observe({"recv", "main"});
  for (int i = 1; i <= 5; ++i) {
    CHECK_FALSE(stage.read(/*cpu_percent=*/6));
    stage.observe({"recv", "main"});
  }
}

TEST_CASE("what a worker reads and writes to answer is no progress") {
  Stage stage;
  for (int i = 1; i <= 20; ++i) {
    REQUIRE(stage.read(/*cpu_percent=*/90));
    stage.observe({"spin", "main"}, 6ms);
    stage.signs.bytes += 40'000;
    CHECK(stage.quiet() == i * 3s);
  }
}

TEST_CASE("after a suspended machine the timeout restarts") {
  Stage stage;
  stage.read();
  REQUIRE(stage.monitor.take_due(t0 + 1h));
  stage.monitor.heard(t0 + 1h, {stage.signs});
  CHECK(stage.monitor.quiet(t0 + 1h) == 0s);
}

TEST_CASE(
    "a node is quiet only if all of its workers are, and a worker that has exited does not count") {
  ProgressMonitor monitor(60s);
  monitor.started(t0, first);
  monitor.started(t0, LocalRank{1});
  ProgressSigns busy{.local_rank = LocalRank{1}, .beats = 1};
  REQUIRE(monitor.take_due(t0 + 3s));
  monitor.heard(t0 + 3s, {{.local_rank = first}, busy});
  CHECK(monitor.quiet(t0 + 3s) == 0s);
  monitor.ended(LocalRank{1});
  REQUIRE(monitor.take_due(t0 + 6s));
  monitor.heard(t0 + 6s, {{.local_rank = first}});
  CHECK(monitor.quiet(t0 + 6s) == 6s);
  monitor.ended(first);
  CHECK_FALSE(monitor.next_deadline());
  CHECK(monitor.quiet(t0 + 9s) == 0s);
}

}  // namespace progress_monitor_test
