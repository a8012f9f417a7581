// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "proto/link/codec.h"
#include "proto/link/values_json.h"
#include "tests/golden.h"

namespace golden_frames_test {

using namespace cpprun;
using namespace cpprun::link;
using namespace cpprun::testing;
using namespace std::chrono_literals;

namespace {

Failure some_failure() {
  return {.rank = Rank{3},
          .local_rank = LocalRank{1},
          .group_rank = GroupRank{2},
          .host = "node-b\n",
          .pid = 4711,
          .status = {.signalled = true, .value = 11},
          .time = WallTime{1'700'000'000'123'456us},
          .message = "was killed\nby \xff SIGSEGV",
          .cause = "segfault",
          .consequence = true};
}

TimeUse some_time() {
  TimeUse time{.wall = 61'500'999us};
  for (std::size_t i = 0; i < account_count; ++i) time.nodes[i] = 1'500us * i;
  time.lost = {{.cause = "start", .time = time.nodes},
               {.cause = "out_of_memory", .host = "beta", .count = 2, .time = time.nodes}};
  return time;
}

std::vector<WorkerStats> some_stats() {
  return {{.local_rank = LocalRank{0}, .pid = 7, .state = WorkerState::running, .since = 5s},
          {.local_rank = LocalRank{1},
           .pid = 8,
           .state = WorkerState::failed,
           .since = 1500ms,
           .step = 12,
           .millisteps_per_second = 2500,
           .samples = 99,
           .checkpoint_step = 10,
           .last_beat = 250ms,
           .total = 1000,
           .metrics = {{"loss", 0.12345678}, {"lr", std::nullopt}},
           .resident_kib = 2048,
           .cpu_percent = 99,
           .last_words = 3s,
           .last_line = "step 12",
           .gpu = GpuUse{.index = 1, .percent = 70, .used_mib = 3, .total_mib = 5}}};
}

Join some_join() {
  return {.job = "j",
          .host = "h\xff",
          .pid = 7,
          .agent = 4'000'000'000,
          .node_rank = 1,
          .nodes_min = 2,
          .nodes_max = 4,
          .local_world_size = 8,
          .role = "trainer",
          .restarts = {.max = 3,
                       .budgets = {{"hang", 1}, {"node", {}}},
                       .backoff = 1500ms + 999'999ns,
                       .window = 60s,
                       .final_codes = {2, -11},
                       .free_codes = {75},
                       .fruitless_max = 4,
                       .host_limit = {3, 1h}},
          .addresses = {"10.0.0.2", "fd00::2"},
          .lease = 3s,
          .last_call = Duration::max(),
          .after = RoundNumber{2},
          .idle = true,
          .done = true,
          .sent = AgentTime{123'456'789},
          .store_is_local = true,
          .can_lead = true,
          .vote = RoundNumber{7},
          .turns = true,
          .epoch = 9,
          .fresh = true};
}

// Every message with every member, and the least of those that omit members.
std::vector<Message> all_messages() {
  return {
      some_join(),
      Join{.job = "j", .host = "h", .idle = true},
      Failed{RoundNumber{1}, some_failure(), AgentTime{5}, true},
      Failed{},
      Succeeded{RoundNumber{1}},
      Drained{RoundNumber{1}, 754'321'999us, {12'345'678'901, 12'345'000'000}, true},
      Drained{.unsaved = 999us},
      Leave{15, "asked to stop", AgentTime{7}},
      Leave{},
      Heartbeat{AgentTime{5}, 250us, 10s, AgentTime{123'456'789}, "file /run/preempt"},
      Heartbeat{},
      Waiting{"a spare", true},
      Refused{std::string(5000, 'x')},
      Sealed{.round = RoundNumber{2},
             .restart_count = 1,
             .group_rank = GroupRank{1},
             .group_world_size = 2,
             .base_rank = Rank{4},
             .world_size = 6,
             .role_base_rank = 5,
             .role_world_size = 7,
             .store_port = 29500,
             .neighbour = {"10.0.0.2", "fd00::2"},
             .failed_before = some_failure()},
      Sealed{},
      Drain{RoundNumber{2}, "rank 3 failed", true, true},
      Drain{},
      Finish{.exit_code = 139,
             .reason = "rank 3 failed",
             .root = some_failure(),
             .consequences = {{Rank{1}, GroupRank{0}, {.signalled = true, .value = 6}},
                              {Rank{2}, GroupRank{1}, {.value = 1}}},
             .consequence_count = 7,
             .time = some_time()},
      Finish{},
      WhoHosts{"j", "h", 7, 4'000'000'000, true, "10.0.0.7", 1},
      WhoHosts{},
      Hosts{"j", "h", 7, true},
      Save{RoundNumber{3}, 10, 9h},
      Dismissed{"uid 0 (root) drained node 3"},
      Status{RoundNumber{2}, some_stats()},
      Record{RoundNumber{3}, 1, 2, std::string("a\0\xFF\"\n", 5)},
      Stands{RoundNumber{3}, 29500},
      Standby{RoundNumber{3}, "fd00::2", 29500},
      NotLeading{"it is a standby", "10.0.0.7", 29400},
      NotLeading{},
      Led{"10.0.0.7", 29500},
      Members{std::uint64_t{1} << 60, {"10.0.0.1:29400", "[fd00::1]:29400"}, 4000ms, true},
      Members{},
      Follow{"b", "cluster", "0.9.0", 1, 5, "10.0.0.2:29400", true},
      Follow{},
      Leads{"a", "cluster", "0.9.0", 1, 5, true},
      Leads{},
      TakeOver{7},
      Captured{RoundNumber{3}, 7, 1, 2, std::string("a\0\xFF\"\n", 5), 61s},
      Capture{RoundNumber{3}, 7},
      Verdict{RoundNumber{3}, 7, Rank{4}, 61s, "missing", "rank 4 is missing", {"rank 4: sleeps"}},
      Heartbeat{.quiet = 61s, .hang_timeout = 60s},
      Join{.job = "j", .host = "h", .turns = true, .captures = true},
      Heartbeat{.timed_out = true},
      Capture{RoundNumber{3}, 8, true, true},
      Verdict{.round = RoundNumber{3}, .number = 8, .rank = Rank{4}, .is_timeout = true},
      Sealed{.captures_timeouts = true},
  };
}

// Those of cpprunctl upgrade-agent and --restart-scope=worker.
std::vector<Message> later_messages() {
  return {
      Join{.job = "j", .host = "h", .upgrades = true},
      Upgraded{.number = 7, .version = "0.2.0", .error = "no such file", .took = 5ms},
      Upgraded{},
      Upgrade{.number = 7},
      RestartWorker{RoundNumber{3}, Rank{4}, 2, 5, 1500ms, "restart 5 of 9"},
      Join{.job = "j", .host = "h", .restarts = {.max = 9, .scope = RestartScope::worker}},
      Failed{.round = RoundNumber{3}, .failure = some_failure(), .attempt = 2},
      Sealed{.round = RoundNumber{3}, .restarts_workers = true},
      Finish{.exit_code = 3, .reason = "rank 3 failed", .restarts = 5},
  };
}

std::string frame_of(const std::string& body) {
  std::string frame;
  for (unsigned shift = 0; shift < 32; shift += 8) {
    frame += static_cast<char>(body.size() >> shift & 0xFF);
  }
  return frame + body;
}

std::string outcome(const nlohmann::json& object) {
  const auto decoded =
      decode(frame_of(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  return decoded ? encode(decoded->value().message) : decoded.error().reason;
}

}  // namespace

TEST_CASE("the bytes of all link messages are those of earlier versions, and so are all errors") {
  Golden golden("frames");
  auto messages = all_messages();
  for (Message& each : later_messages()) messages.push_back(std::move(each));
  std::set<std::size_t> kinds;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    kinds.insert(messages[i].index());
    const auto frame = encode(messages[i]);
    golden.add(fmt::format("message {}", i), frame);
    golden.add(fmt::format("message {} changed", i),
               outcomes_of(nlohmann::json::parse(frame.substr(4)), outcome));
  }
  CHECK(kinds.size() == std::variant_size_v<Message>);
  golden.add("time use for people", readable_json(some_time()).dump(1));
  golden.check();
}

}  // namespace golden_frames_test
