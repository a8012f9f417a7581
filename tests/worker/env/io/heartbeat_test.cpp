// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/heartbeat.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>

#include "proto/worker_contract.h"
#include "tests/worker/child.h"
#include "tests/worker/temporary_directory.h"

namespace heartbeat_test {

using namespace cpprun;
using cpprun::testing::TemporaryDirectory;

TEST_CASE("each heartbeat is in the file, with the time") {
  const TemporaryDirectory directory;
  Heartbeat heartbeat(directory.file("heartbeat"), 3);
  REQUIRE(heartbeat.works());
  auto record = parse_heartbeat(directory.read("heartbeat"));
  REQUIRE(record);
  CHECK(record->rank == 3);
  CHECK(record->pid == ::getpid());
  CHECK(record->beats == 0);
  CHECK(record->last_nanoseconds == 0);
  heartbeat.beat();
  heartbeat.beat();
  record = parse_heartbeat(directory.read("heartbeat"));
  REQUIRE(record);
  CHECK(record->beats == 2);
  const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
  CHECK(record->last_nanoseconds <= now.count());
  CHECK(record->last_nanoseconds > 0);
}

TEST_CASE("progress and checkpoints are in the file") {
  const TemporaryDirectory directory;
  Heartbeat heartbeat(directory.file("heartbeat"), 0);
  heartbeat.beat({.step = 41, .samples = 41 * 256});
  auto record = parse_heartbeat(directory.read("heartbeat"));
  REQUIRE(record);
  CHECK(record->beats == 1);
  CHECK(record->step == 41);
  CHECK(record->samples == 41 * 256);
  CHECK(record->checkpoint_step == 0);
  CHECK(record->checkpoint_seconds == 0);
  heartbeat.saved(40);
  heartbeat.beat({.step = 42, .samples = 42 * 256});
  record = parse_heartbeat(directory.read("heartbeat"));
  CHECK(record->step == 42);
  CHECK(record->checkpoint_step == 40);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  CHECK(record->checkpoint_seconds > 0);
  CHECK(record->checkpoint_seconds <=
        std::chrono::duration_cast<std::chrono::seconds>(now).count());
}

TEST_CASE("a total and metrics are in the file, and only valid names are accepted") {
  const TemporaryDirectory directory;
  Heartbeat heartbeat(directory.file("heartbeat"), 0);
  heartbeat.beat({.step = 1, .total = 500});
  heartbeat.beat({.step = 2});
  CHECK(heartbeat.metric("loss", 2.5));
  CHECK(heartbeat.metric("sixteen_letters_", 1));
  CHECK(heartbeat.metric("loss", 2.25));
  CHECK_FALSE(heartbeat.metric("", 1));
  CHECK_FALSE(heartbeat.metric("seventeen_letters", 1));
  CHECK_FALSE(heartbeat.metric("two words", 1));
  for (int more = 2; more < CPPRUN_HEARTBEAT_METRICS; ++more) {
    CHECK(heartbeat.metric("m" + std::to_string(more), more));
  }
  CHECK_FALSE(heartbeat.metric("a_ninth", 1));
  CHECK(heartbeat.metric("m7", 70));
  const auto record = parse_heartbeat(directory.read("heartbeat"));
  REQUIRE(record);
  CHECK(record->step == 2);
  CHECK(record->total == 500);
  CHECK(record->metrics[0].name == std::string("loss"));
  CHECK(record->metrics[0].value == 2.25);
  CHECK(std::string(record->metrics[1].name, 16) == "sixteen_letters_");
  CHECK(record->metrics[7].value == 70);
}

TEST_CASE("a file of 64 bytes, from an older cpprun, keeps its size and accepts heartbeats") {
  const TemporaryDirectory directory;
  std::ofstream(directory.file("heartbeat")) << std::string(64, '\0');
  Heartbeat heartbeat(directory.file("heartbeat"), 0);
  REQUIRE(heartbeat.works());
  CHECK(heartbeat.metric("loss", 1));
  heartbeat.beat({.step = 3, .total = 9});
  const auto record = parse_heartbeat(directory.read("heartbeat"));
  REQUIRE(record);
  CHECK(record->step == 3);
  CHECK(record->total == 0);
}

TEST_CASE("a restarted worker restarts the count in the same file") {
  const TemporaryDirectory directory;
  Heartbeat(directory.file("heartbeat"), 0).beat();
  const Heartbeat again(directory.file("heartbeat"), 0);
  CHECK(parse_heartbeat(directory.read("heartbeat"))->beats == 0);
}

TEST_CASE("the environment names the file, and without it nothing happens") {
  const TemporaryDirectory directory;
  ::unsetenv("CPPRUN_HEARTBEAT_FILE");
  Heartbeat none{Context{}};
  none.beat();
  CHECK_FALSE(none.works());
  ::setenv("CPPRUN_HEARTBEAT_FILE", directory.file("heartbeat").c_str(), 1);
  CHECK(Heartbeat(Context{}).works());
  ::unsetenv("CPPRUN_HEARTBEAT_FILE");
  CHECK(directory.entries() == 1);
}

TEST_CASE("a file that cannot be created is reported and ends nothing") {
  const auto ended = cpprun::testing::run_in_child([] {
    Heartbeat heartbeat("/none/beat", 2);
    heartbeat.beat();
    return heartbeat.works() ? 1 : 0;
  });
  CHECK(ended.exit_code == 0);
  CHECK(ended.stderr_text ==
        "rank 2: heartbeats are off: cannot write \"/none/beat\": No such file or directory\n");
}

TEST_CASE("an invalid heartbeat is rejected") {
  CHECK(parse_heartbeat("short").error().reason ==
        "a heartbeat file has 264 or 64 bytes, this one has 5");
  CHECK(parse_heartbeat(std::string(64, 'x')).error().reason ==
        "not a heartbeat file: it does not begin with CPPRUNHB");
  std::string newer = "CPPRUNHB" + std::string(56, '\0');
  newer[8] = 3;
  CHECK(parse_heartbeat(newer).error().reason ==
        "a heartbeat file of version 3; only version 2 is supported");
}

}  // namespace heartbeat_test
