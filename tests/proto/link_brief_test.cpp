// SPDX-License-Identifier: BSD-3-Clause
#include "proto/link/message.h"

#include <doctest/doctest.h>

#include "proto/link/bounds.h"
#include "proto/link/codec.h"

namespace link_brief_test {

using namespace cpprun;
using namespace cpprun::link;
using namespace std::chrono_literals;

namespace {

Finish large() {
  Finish finish{.exit_code = 255,
                .reason = std::string(3000, 'r'),
                .root = Failure{.rank = Rank{12'799'999},
                                .local_rank = LocalRank{2047},
                                .group_rank = GroupRank{99'999},
                                .host = std::string(64, 'h'),
                                .pid = 4'194'304,
                                .status = {.signalled = true, .value = 64},
                                .time = WallTime{std::chrono::microseconds{9'999'999'999'999'999}},
                                .message = std::string(2000, '"'),
                                .cause = std::string(64, 'c'),
                                .consequence = true},
                .consequence_count = 12'799'998};
  finish.consequences.assign(64, {Rank{12'799'999}, GroupRank{99'999}, {true, 64}});
  TimeUse& time = finish.time.emplace();
  time.wall = time_use_max;
  time.nodes.fill(time_use_max);
  time.lost.assign(64, {.cause = std::string(64, 'c'),
                        .host = std::string(253, 'h'),
                        .count = 1'000'000,
                        .time = time.nodes});
  return finish;
}

}  // namespace

TEST_CASE("the largest possible end report takes 512 bytes for each of ten thousand nodes") {
  const Finish shortened = brief(large());
  CHECK(encode(shortened).size() <= bounds::round_frame_bytes_max);
  CHECK(shortened.exit_code == 255);
  CHECK(shortened.root->rank == Rank{12'799'999});
  CHECK(shortened.consequence_count == 12'799'998);
  CHECK(shortened.reason.ends_with("…"));
}

TEST_CASE("an ordinary end report is complete, with up to eight consequences by name") {
  Finish finish{.exit_code = 3,
                .reason = "rank 3 on beta failed",
                .root = Failure{.rank = Rank{3}, .host = "beta", .message = "ValueError: no"},
                .consequence_count = 20};
  finish.consequences.assign(20, {Rank{1}, GroupRank{0}, {false, 1}});
  const Finish shortened = brief(finish);
  CHECK(shortened.consequences.size() == bounds::consequences_brief_max);
  CHECK(shortened.consequence_count == 20);
  CHECK(shortened.root == finish.root);
  CHECK(shortened.reason == finish.reason);
}

TEST_CASE("a seat takes at most 512 bytes, whatever failed in the round before") {
  Sealed sealed{.round = RoundNumber{100'000},
                .restart_count = 1000,
                .group_rank = GroupRank{99'999},
                .group_world_size = 100'000,
                .base_rank = Rank{12'799'872},
                .world_size = 12'800'000,
                .role_base_rank = 12'799'872,
                .role_world_size = 12'800'000,
                .store_port = 65'535,
                .neighbour = {"10.0.0.2", "fd00::2"},
                .failed_before = Failure{.rank = Rank{3},
                                         .host = "beta",
                                         .status = {.value = 1},
                                         .message = "node 1 on beta is lost",
                                         .cause = std::string(node_lost)}};
  CHECK(brief(sealed) == sealed);
  sealed.failed_before->message = std::string(2000, '"');
  const Sealed cut = brief(sealed);
  CHECK(encode(cut).size() <= bounds::round_frame_bytes_max);
  REQUIRE(cut.failed_before);
  CHECK(cut.failed_before->cause == node_lost);
  CHECK(cut.failed_before->message.ends_with("…"));
  // A seat is never dropped because of it.
  sealed.neighbour.assign(bounds::node_addresses_max, std::string(45, 'f'));
  sealed.failed_before = *large().root;
  const Sealed bare = brief(sealed);
  CHECK(encode(bare).size() <= bounds::round_frame_bytes_max);
  CHECK_FALSE(bare.failed_before);
}

TEST_CASE("a text is never cut inside a character") {
  Finish finish = large();
  finish.root->message.clear();
  for (int i = 0; i < 500; ++i) finish.root->message += "é";
  const std::string message = brief(finish).root->message;
  REQUIRE(message.ends_with("…"));
  CHECK((message.size() - std::string("…").size()) % 2 == 0);
}

TEST_CASE("the reason of the end takes precedence over the time accounting") {
  const std::string lost =
      "node 1 on host1 (10.77.13.2) is lost: nothing was heard of it for 3.0 s";
  Finish finish{.exit_code = 1,
                .reason = lost,
                .root = Failure{.rank = Rank{1}, .host = "host1", .message = lost},
                .time = TimeUse{.wall = 1h}};
  finish.time->lost.assign(10, {.cause = "a loss of hosts", .host = "host1"});
  const Finish shortened = brief(finish);
  CHECK(encode(shortened).size() <= bounds::round_frame_bytes_max);
  CHECK(shortened.reason == lost);
  CHECK(shortened.root->message == lost);
}

TEST_CASE("the largest parts of the time accounting are kept") {
  Finish finish{.exit_code = 3, .reason = "rank 3 on beta failed", .time = TimeUse{.wall = 1h}};
  for (int i = 0; i < 20; ++i) {
    LostTime& lost = finish.time->lost.emplace_back();
    lost.cause = "cause " + std::to_string(i);
    lost.count = 1;
    of(lost.time, Account::draining) = std::chrono::seconds{i};
  }
  const Finish shortened = brief(finish);
  REQUIRE(shortened.time);
  CHECK(shortened.time->wall == 1h);
  REQUIRE(shortened.time->lost.size() >= 2);
  CHECK(shortened.time->lost.size() < 20);
  CHECK(shortened.time->lost[0].cause == "cause 19");
  CHECK(shortened.time->lost[1].cause == "cause 18");
  CHECK(shortened.reason == finish.reason);
  CHECK(encode(shortened).size() <= bounds::round_frame_bytes_max);
}

}  // namespace link_brief_test
