// SPDX-License-Identifier: BSD-3-Clause
// The state that one program of an agent's process leaves for the next: all of it survives, with
// any bytes, and bytes that are no such state are rejected.

#include "launcher/agent/io/upgrade_state.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace upgrade_state_test {

using namespace cpprun;
using namespace cpprun::io;
using namespace std::chrono_literals;

namespace {

const std::string any_bytes("\xff\x00\x80 \n\"", 6);

AgentPast full_past() {
  AgentPast past;
  past.master = {"10.0.0.1", 29500};
  past.up = {.local_address = "10.0.0.2",
             .master_addresses = {"10.0.0.1", "fe80::1"},
             .local_store_port = 41000};
  past.proof = TimePoint{6s + 3us};
  past.sealed = {.round = RoundNumber{3},
                 .restart_count = 2,
                 .group_rank = GroupRank{1},
                 .group_world_size = 2,
                 .world_size = 8,
                 .role_world_size = 8,
                 .store_port = 29500,
                 .neighbour = {"10.0.0.1"}};
  past.sealed_at = TimePoint{4s};
  past.members = link::Members{.epoch = 4, .places = {"a:1"}, .takeover_window = 2s};
  past.standby = link::Standby{RoundNumber{3}, "10.0.0.3", 29501};
  past.workers = {{LocalRank{1}, 12, TimePoint{4s}, TimePoint{5s}, true, true}};
  past.step_times = {.first = 3s, .slowest = 2s};
  return past;
}

CarriedCoordinator full_coordinator() {
  return {.port = {21, 22},
          .hosts = {"10.0.0.1"},
          .local_port = {23},
          .record = any_bytes,
          .store = any_bytes,
          .clients = {{ConnectionId{1ULL << 40}, 24, {.port = 5}, 49, true}},
          .store_was_asked = true,
          .door = 25,
          .door_path = "/run/door"};
}

StoreForwarder::Carried full_local_store() {
  return {.port = 26,
          .round = RoundNumber{3},
          .newest = link::StreamId{9},
          .streams = {{link::StreamId{2}, 27, 5, 6, true, true, any_bytes}}};
}

// Every member differs from its default.
UpgradeState full_state() {
  UpgradeState state{.version = "0.1.0",
                     .begun = TimePoint{5s},
                     .request = 1ULL << 60,
                     .job = "train \"1\"",
                     .agent_number = 4'000'000'000U,
                     .node_token = "00ff",
                     .mark = WorkerMark{~std::uint64_t{0} - 1},
                     .started = WallTime{7s},
                     .local_world_size = 2,
                     .config_files = {{"/etc/a.toml", any_bytes}},
                     .secrets = "cpprun1:a:00\n",
                     .open_files = rlimit{.rlim_cur = 1024, .rlim_max = RLIM_INFINITY},
                     .niceness = -3};
  state.agent = full_past();
  state.helpers = {3, 4};
  state.watchdogs_started = 1;
  state.watchdog = {.pid = 5,
                    .pipe = 6,
                    .fired = 7,
                    .directories = {"/tmp/x"},
                    .hangs = true,
                    .groups = {8, 9},
                    .fence = TimePoint{9s},
                    .door = "/run/door"};
  state.workers.processes = {.workers = {{LocalRank{0}, 10, true}},
                             .spared = {5},
                             .unrelated_below = true,
                             .warm_parent = 11};
  state.workers.logs = {.run_directory = "/logs",
                        .error_directory = "/errors",
                        .attempts = {"/logs/attempt_0"},
                        .is_fresh = false};
  const FileWriterProcess::Carried writer{12, 13, 2};
  state.workers.output = {
      .out = Console::Carried{.queue = any_bytes, .inside = 3, .writer = writer},
      .err = Console::Carried{.queue = "e"},
      .files = LogWriter::Carried{{"/logs/a"}, writer, any_bytes},
      .streams = {{.local_rank = LocalRank{1},
                   .is_stderr = true,
                   .pipe = 14,
                   .splitter = {any_bytes, 2, true},
                   .last = {{any_bytes, "b"}, true},
                   .spoke_at = TimePoint{8s}}}};
  state.workers.heartbeat_files = {{LocalRank{0}, 15}, {LocalRank{1}, 16}};
  state.workers.has_probes = true;
  state.output_files = {.report_path = "/r",
                        .report_name = "r",
                        .announced = any_bytes,
                        .events = {.path = "/e",
                                   .at_hand = 17,
                                   .process = writer,
                                   .queue = "q",
                                   .lost = 2,
                                   .is_over = true}};
  state.restarts = 2;
  state.attempts = {
      {.round = RoundNumber{2},
       .restart = 1,
       .began = WallTime{1s},
       .ended = WallTime{2s},
       .reason = "rank 3 failed",
       .failure = link::Failure{
           .rank = Rank{3}, .host = "beta", .pid = 20, .status = {true, 11}, .message = "a\nb"}}};
  state.attempts_left_out = 4;
  state.coordinator = full_coordinator();
  state.local_store = full_local_store();
  return state;
}

}  // namespace

TEST_CASE("a state survives its bytes, which are always the same") {
  const UpgradeState state = full_state();
  const std::string bytes = upgrade_state_bytes(state);
  const auto read = read_upgrade_state(std::string_view(bytes));
  if (!read) FAIL(read.error().reason);
  CHECK(upgrade_state_bytes(*read) == bytes);
  CHECK(read->agent == state.agent);
  CHECK(read->watchdog == state.watchdog);
  CHECK(read->workers == state.workers);
  CHECK(read->output_files == state.output_files);
  CHECK(read->attempts == state.attempts);
  CHECK(read->coordinator == state.coordinator);
  CHECK(read->local_store == state.local_store);
  CHECK(read->request == state.request);
  CHECK(read->mark == state.mark);
  CHECK(read->config_files == state.config_files);
  CHECK(read->open_files->rlim_max == RLIM_INFINITY);
  CHECK(read->niceness == -3);
}

TEST_CASE("an empty state survives, too") {
  UpgradeState state;
  state.agent.sealed = full_past().sealed;  // there is no message without a round
  const std::string bytes = upgrade_state_bytes(state);
  const auto read = read_upgrade_state(std::string_view(bytes));
  if (!read) FAIL(read.error().reason);
  CHECK(upgrade_state_bytes(*read) == bytes);
  CHECK_FALSE(read->coordinator.has_value());
}

TEST_CASE("all descriptors of a state are known, so that they stay open") {
  std::vector<int> all = descriptors_of(full_state());
  std::ranges::sort(all);
  // A writer of three streams has the same two here.
  const auto repeated = std::ranges::unique(all);
  all.erase(repeated.begin(), repeated.end());
  CHECK(all == std::vector{6, 7, 12, 13, 14, 15, 16, 17, 21, 22, 23, 24, 25, 26, 27});
  CHECK(descriptors_of({}).empty());
}

TEST_CASE("what is no state, or of another format, is rejected with the reason") {
  const auto why = [](std::string_view bytes) {
    const auto read = read_upgrade_state(bytes);
    return read ? std::string("none") : read.error().reason;
  };
  CHECK(why("") == "is not of a cpprun");
  CHECK(why("garbage") == "is not of a cpprun");
  const std::string bytes = upgrade_state_bytes(full_state());
  auto object = nlohmann::json::from_msgpack(bytes);
  const auto with = [&](const char* key, const nlohmann::json& value) {
    auto changed = object;
    changed[key] = value;
    std::string text;
    nlohmann::json::to_msgpack(changed, text);
    return why(text);
  };
  CHECK(with("cpprun_upgrade", 2) == "has format 2, and this version reads format 1");
  CHECK(with("helpers", "x").starts_with("is invalid: "));
  auto agent = object["agent"];
  agent["sealed"] = "x";
  CHECK(with("agent", agent).starts_with("is invalid: "));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    if (why(std::string_view(bytes).substr(0, size)) == "none") FAIL("cut at ", size);
  }
}

}  // namespace upgrade_state_test
