// SPDX-License-Identifier: BSD-3-Clause
#include "proto/link/codec.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "proto/link/bounds.h"

namespace link_codec_test {

using namespace cpprun;
using namespace cpprun::link;

namespace {

Failure example_failure() {
  return {.rank = Rank{3},
          .local_rank = LocalRank{1},
          .group_rank = GroupRank{1},
          .host = "node-b",
          .pid = 4711,
          .status = {.signalled = true, .value = 11},
          .time = WallTime{std::chrono::microseconds{1'700'000'000'123'456}},
          .message = "was killed by SIGSEGV",
          .cause = "segfault",
          .consequence = true};
}

void check_round_trip(const Message& message) {
  const std::string frame = encode(message);
  const auto decoded = decode(frame);
  REQUIRE(decoded.has_value());
  REQUIRE(decoded->has_value());
  CHECK(decoded->value().message == message);
  CHECK(decoded->value().bytes_consumed == frame.size());
}

std::string frame_of(std::string_view body) {
  std::string frame = {static_cast<char>(body.size() & 0xFF), static_cast<char>(body.size() >> 8),
                       0, 0};
  return frame += body;
}

}  // namespace

TEST_CASE("a join survives a round trip, with all rules about failures") {
  check_round_trip(Join{.job = "j",
                        .host = "h",
                        .pid = 7,
                        .agent = 4'000'000'000,
                        .node_rank = 1,
                        .nodes_min = 2,
                        .nodes_max = 4,
                        .local_world_size = 8,
                        .role = "trainer",
                        .restarts = {.max = 3,
                                     .budgets = {{"hang", 1}, {"node", {}}},
                                     .backoff = std::chrono::milliseconds(500),
                                     .window = std::chrono::seconds(60),
                                     .final_codes = {2, -11},
                                     .free_codes = {75},
                                     .fruitless_max = 4,
                                     .host_limit = {3, std::chrono::hours(1)},
                                     .scope = RestartScope::worker,
                                     .reconfigures = true},
                        .addresses = {"10.0.0.2", "fd00::2"},
                        .lease = std::chrono::seconds(3),
                        .last_call = std::chrono::seconds(30),
                        .after = RoundNumber{2},
                        .idle = true,
                        .done = true,
                        .sent = AgentTime{123'456'789}});
  check_round_trip(Join{.job = "j", .host = "h"});
}

TEST_CASE("the messages about a worker that is restarted alone survive a round trip") {
  check_round_trip(Failed{.round = RoundNumber{1}, .failure = example_failure(), .attempt = 2});
  check_round_trip(RestartWorker{.round = RoundNumber{1},
                                 .rank = Rank{7},
                                 .attempt = 2,
                                 .restart_count = 5,
                                 .pause = std::chrono::milliseconds(1500),
                                 .reason = "restart 5 of 9"});
  check_round_trip(Sealed{.round = RoundNumber{2}, .store_port = 1, .restarts_workers = true});
  check_round_trip(Finish{.exit_code = 3, .reason = "r", .restarts = 5});
}

TEST_CASE("every other link message survives a round trip") {
  check_round_trip(
      Failed{.round = RoundNumber{1}, .failure = example_failure(), .noticed = AgentTime{5}});
  check_round_trip(Succeeded{.round = RoundNumber{1}});
  check_round_trip(Drained{.round = RoundNumber{1}});
  check_round_trip(Drained{.round = RoundNumber{1},
                           .unsaved = std::chrono::milliseconds(754'321),
                           .reached = {12'345'678'901, 12'345'000'000}});
  check_round_trip(Join{.job = "j", .host = "h", .after = RoundNumber{2}, .idle = true});
  check_round_trip(Join{.job = "j", .host = "h", .can_lead = true, .vote = RoundNumber{7}});
  check_round_trip(Drained{.round = RoundNumber{1}, .asked = true});
  check_round_trip(Heartbeat{.sent = AgentTime{5}, .moment = AgentTime{123'456'789}});
  check_round_trip(Record{RoundNumber{3}, 1, 2, std::string("a\0\xFF\"\n", 5)});
  check_round_trip(Stands{RoundNumber{3}, 29500});
  check_round_trip(Standby{RoundNumber{3}, "fd00::2", 29500});
  check_round_trip(NotLeading{"the coordinator responds again"});
  check_round_trip(Led{"10.0.0.7", 29500});
  check_round_trip(NotLeading{"it is a standby", "10.0.0.7", 29400});
  check_round_trip(Members{std::uint64_t{1} << 60,
                           {"10.0.0.1:29400", "[fd00::1]:29400"},
                           std::chrono::milliseconds(4000)});
  check_round_trip(Members{.epoch = 7, .keeps_round = true});
  check_round_trip(Follow{"b", "cluster", "0.9.0", 1, 5, "10.0.0.2:29400"});
  check_round_trip(Leads{"a", "cluster", "0.9.0", 1, 5});
  check_round_trip(Follow{"b", "cluster", "0.9.0", 1, 5, "10.0.0.2:29400", /*has_etcd=*/true});
  check_round_trip(Leads{"a", "cluster", "0.9.0", 1, 5, /*has_etcd=*/true});
  check_round_trip(TakeOver{7});
  check_round_trip(Join{.job = "j", .host = "h", .turns = true, .epoch = 9});
  check_round_trip(WhoHosts{.job = "j", .host = "h", .leads_address = "10.0.0.7", .leads_port = 1});
  check_round_trip(Leave{.signal = 15, .reason = "asked to stop"});
  check_round_trip(Leave{.signal = 15, .reason = "asked to stop", .asked = AgentTime{7}});
  check_round_trip(Heartbeat{});
  check_round_trip(
      Heartbeat{.sent = AgentTime{1'000'000}, .round_trip = std::chrono::microseconds(250)});
  check_round_trip(Heartbeat{.sent = AgentTime{7}, .watch = std::chrono::seconds(10)});
  check_round_trip(Heartbeat{.sent = AgentTime{7}, .notice = "file /run/preempt"});
  check_round_trip(Status{.round = RoundNumber{2}});
  check_round_trip(Waiting{.reason = "1 of 2 nodes"});
  check_round_trip(Waiting{.reason = "a spare", .spare = true});
  check_round_trip(Refused{.reason = "node rank 1 is taken"});
  check_round_trip(Sealed{.round = RoundNumber{2},
                          .restart_count = 1,
                          .group_rank = GroupRank{1},
                          .group_world_size = 2,
                          .base_rank = Rank{4},
                          .world_size = 6,
                          .role_base_rank = 4,
                          .role_world_size = 6,
                          .store_port = 29500,
                          .neighbour = {"10.0.0.2", "fd00::2"}});
  check_round_trip(Drain{.round = RoundNumber{2}, .reason = "rank 3 failed"});
  check_round_trip(Finish{.exit_code = 139, .reason = "rank 3 failed", .root = example_failure()});
  check_round_trip(Finish{.exit_code = 139,
                          .reason = "rank 3 failed",
                          .root = example_failure(),
                          .consequences = {{Rank{1}, GroupRank{0}, {.signalled = true, .value = 6}},
                                           {Rank{2}, GroupRank{1}, {.value = 1}}},
                          .consequence_count = 7});
  check_round_trip(Finish{.exit_code = 0, .reason = "all done"});
  TimeUse time{.wall = std::chrono::milliseconds{61'500}};
  time.nodes.fill(std::chrono::seconds{7});
  time.lost = {{.cause = "out_of_memory", .host = "beta", .count = 2, .time = time.nodes}};
  check_round_trip(Finish{.exit_code = 0, .reason = "all done", .time = time});
  check_round_trip(WhoHosts{.job = "j", .host = "h", .pid = 7, .agent = 4'000'000'000});
  check_round_trip(WhoHosts{.job = "j", .host = "h", .pid = 7, .agent = 1, .joins = true});
  check_round_trip(Hosts{.job = "j", .host = "h", .pid = 7, .itself = true});
  check_round_trip(Save{.round = RoundNumber{3}, .signal = 10, .at = std::chrono::hours(9)});
  check_round_trip(Dismissed{.reason = "uid 0 (root) drained node 3"});
}

TEST_CASE("durations are encoded as the whole numbers that agents have always sent") {
  const Join join{.job = "j",
                  .host = "h",
                  .pid = 7,
                  .agent = 9,
                  .restarts = {.backoff = std::chrono::milliseconds(1500) + Duration(999'999),
                               .window = std::chrono::seconds(60)},
                  .lease = std::chrono::seconds(3),
                  .last_call = std::chrono::seconds(30),
                  .sent = AgentTime{5}};
  CHECK(encode(join).substr(4) ==
        R"({"addresses":[],"after":0,"agent":9,"backoff_ms":1500,"final":[],"host":"h","idle":0,)"
        R"("job":"j","last_call_ms":30000,"lease_ms":3000,"max":1,"min":1,"pid":7,"restarts":0,)"
        R"("role":"default","say":"join","sent":5,"window_ms":60000,"workers":1})");
  CHECK(
      encode(Heartbeat{.sent = AgentTime{1'000'000}, .round_trip = Duration(250'999)}).substr(4) ==
      R"({"say":"heartbeat","sent":1000000,"trip":250})");
  // More milliseconds than an int has: the longest possible, and not a negative number.
  const std::string endless = encode(Join{.job = "j", .host = "h", .lease = Duration::max()});
  CHECK(endless.find(R"("lease_ms":2147483647)") != std::string::npos);
  CHECK(decode(frame_of(R"({"say":"heartbeat","sent":1,"trip":4294967296})")).has_value() == false);
}

TEST_CASE("a seat is unchanged for peers that do not know of earlier failures") {
  const Sealed sealed{.round = RoundNumber{2}, .store_port = 29500};
  // As an older coordinator sends it.
  const std::string old =
      R"({"base":0,"neighbour":[],"node":0,"nodes":1,"restart":0,"role_base":0,"role_world":1,)"
      R"("round":2,"say":"sealed","store_port":29500,"world":1})";
  CHECK(encode(sealed).substr(4) == old);
  CHECK(decode(frame_of(old))->value().message == Message{sealed});
  check_round_trip(
      Sealed{.round = RoundNumber{2}, .store_port = 29500, .failed_before = example_failure()});
}

TEST_CASE("a frame is decoded only when it has arrived completely") {
  const std::string frame = encode(Waiting{.reason = "for you"});
  for (std::size_t length = 0; length < frame.size(); ++length) {
    const auto decoded = decode(std::string_view{frame}.substr(0, length));
    REQUIRE(decoded.has_value());
    CHECK(!decoded->has_value());
  }
}

TEST_CASE("two frames in one packet are decoded one after the other") {
  const std::string first = encode(Heartbeat{});
  const std::string both = first + encode(Waiting{.reason = "x"});
  const auto decoded = decode(both);
  REQUIRE(decoded.has_value());
  CHECK(decoded->value().bytes_consumed == first.size());
  CHECK(decoded->value().message == Message{Heartbeat{}});
}

TEST_CASE("an impossible frame is rejected with a reason") {
  CHECK(decode(std::string("\xff\xff\xff\x7f", 4)).error().reason ==
        "a link frame has 2147483647 bytes; the maximum is 32768");
  CHECK(decode(frame_of(R"({"say":"dance"})")).error().reason == "unknown link message \"dance\"");
  CHECK_FALSE(decode(frame_of(R"({"say":"waiting"})")).has_value());
  CHECK_FALSE(decode(frame_of(R"({"say":"waiting","reason":7})")).has_value());
  CHECK_FALSE(decode(frame_of("not json at all")).has_value());
  CHECK_FALSE(decode(frame_of("[1,2]")).has_value());
}

TEST_CASE("join and sealed, the messages of a round, stay within 512 bytes") {
  const Join join{.job = std::string(64, 'j'),
                  .host = std::string(64, 'h'),
                  .pid = 4'194'304,
                  .agent = 4'294'967'295,
                  .node_rank = 99'999,
                  .nodes_min = 99'999,
                  .nodes_max = 99'999,
                  .local_world_size = 128,
                  .restarts = {.max = 1000},
                  .after = RoundNumber{100'000}};
  CHECK(encode(join).size() <= 512);
  const Sealed sealed{.round = RoundNumber{100'000},
                      .restart_count = 1000,
                      .group_rank = GroupRank{99'999},
                      .group_world_size = 100'000,
                      .base_rank = Rank{12'799'872},
                      .world_size = 12'800'000,
                      .role_base_rank = 12'799'872,
                      .role_world_size = 12'800'000,
                      .store_port = 65'535};
  CHECK(encode(sealed).size() < 300);
}

TEST_CASE("a worker's incomplete characters and endless lines do not break a frame") {
  Failure failure = example_failure();
  failure.message = std::string("\xff\xfe half") + std::string(1 << 20, 'x');
  failure.message[10] = '\x01';
  const std::string frame = encode(Failed{.round = RoundNumber{1}, .failure = failure});
  CHECK(frame.size() < bounds::link_frame_bytes_max);
  const auto decoded = decode(frame);
  REQUIRE(decoded.has_value());
  const auto& message = std::get<Failed>(decoded->value().message).failure.message;
  CHECK(message.ends_with("…"));
}

TEST_CASE("untrusted text moves no cursor and forges no log line") {
  const Join forged{.job = "j", .host = "x\n\x1b[31mcpprun: job mine failed", .role = "a\tb\rc"};
  const auto join = std::get<Join>(decode(encode(forged))->value().message);
  CHECK(join.host == "x??[31mcpprun: job mine failed");
  CHECK(join.role == "a\tb?c");
  Failure failure = example_failure();
  failure.message = "first\n\x1b[1msecond\x7f";
  const auto failed = std::get<Failed>(
      decode(encode(Failed{.round = RoundNumber{1}, .failure = failure}))->value().message);
  CHECK(failed.failure.message == "first\n?[1msecond?");
  const auto leave = std::get<Leave>(
      decode(encode(Leave{.signal = 15, .reason = "asked\ncpprun: job mine failed"}))
          ->value()
          .message);
  CHECK(leave.reason == "asked?cpprun: job mine failed");
  CHECK(decode(frame_of("{\"say\":\"a\\nb\"}")).error().reason == "unknown link message \"a?b\"");
  CHECK(decode(frame_of("{\"say\":\"\\u001b[2J\"}")).error().reason ==
        "unknown link message \"?[2J\"");
  const Join turned{.job = "j", .host = "a\u009b2J\u202eb", .role = "no\u200bde"};
  const auto plain = std::get<Join>(decode(encode(turned))->value().message);
  CHECK(plain.host == "a?2J?b");
  CHECK(plain.role == "no?de");
  const auto unreadable = decode(frame_of("{\"say\": \u009b\u202e"));
  CHECK(unreadable.error().reason.find("\u009b") == std::string::npos);
  CHECK(unreadable.error().reason.find("\u202e") == std::string::npos);
}

TEST_CASE("an impossible time is decoded as the latest possible one") {
  const auto join = std::get<Join>(
      decode(encode(Join{.job = "j", .host = "h", .sent = AgentTime::max()}))->value().message);
  CHECK(join.sent == std::chrono::microseconds{bounds::agent_time_max});
}

TEST_CASE("a node's stacks are read in whatever order the members are, and without unknown ones") {
  const Captured captured{.round = RoundNumber{3},
                          .number = 7,
                          .part = 1,
                          .parts = 2,
                          .bytes = "{}\n",
                          .quiet = std::chrono::seconds(61)};
  check_round_trip(captured);
  for (const char* body : {
           R"({"bytes":"7b7d0a","number":7,"part":1,"parts":2,"quiet_ms":61000,"round":3,)"
           R"("say":"captured"})",
           R"({"say":"captured","round":3,"quiet_ms":61000,"parts":2,"part":1,"number":7,)"
           R"("bytes":"7B7D0a"})",
           R"({"new":{"x":[-1.5]},"round":3,"bytes":"7b7d0a","number":7,"part":1,"parts":2,)"
           R"("quiet_ms":61000,"say":"captured"})",
       }) {
    CAPTURE(body);
    const auto decoded = decode(frame_of(body));
    REQUIRE((decoded.has_value() && decoded->has_value()));
    CHECK(decoded->value().message == Message(captured));
  }
}

TEST_CASE("invalid stacks of a node are rejected with the same reason in any order of members") {
  const auto reason = [](std::string_view body) { return decode(frame_of(body)).error().reason; };
  for (const auto& [wrong, why] : {
           std::pair(R"("bytes":"7","number":7,"part":0,"parts":1,"round":3)", "hexadecimal"),
           std::pair(R"("bytes":"","number":-7,"part":0,"parts":1,"round":3)", "whole number"),
           std::pair(R"("bytes":"","number":7,"part":2,"parts":1,"round":3)", "part"),
           std::pair(R"("bytes":"","number":7,"part":0,"round":3)", "parts"),
       }) {
    CAPTURE(wrong);
    const std::string last = fmt::format(R"({{{},"say":"captured"}})", wrong);
    const std::string first = fmt::format(R"({{"say":"captured",{}}})", wrong);
    CHECK(reason(last) == reason(first));
    CHECK(reason(last).find(why) != std::string::npos);
  }
}

}  // namespace link_codec_test
