// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/status_json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace daemon_json_test {

using namespace cpprun;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

const ClockPair later{.now = TimePoint{} + 10s, .wall = WallTime{} + 1000s};

}  // namespace

TEST_CASE("a leader shows its standbys, its state and the last change") {
  const DaemonSnapshot daemon{
      .name = "a",
      .place = "a:29400",
      .version = "1.2",
      .has_etcd = true,
      .leads = true,
      .epoch = 12,
      .since = WallTime{} + 990s,
      .leader = "a",
      .leader_address = "a:29400",
      .standbys = {{.name = "b", .place = "b:29400", .version = "1.3", .bytes_behind = 9}},
      .durable = true,
      .changes = 2,
      .last_change = LeaderChange{.time = WallTime{} + 990s,
                                  .from = "b",
                                  .from_place = "b:29400",
                                  .to = "a",
                                  .to_place = "a:29400",
                                  .epoch = 12,
                                  .reason = "r",
                                  .silence = 12345us}};
  const json read = json::parse(daemon_json(daemon, later));
  CHECK(read["role"] == "leads");
  CHECK(read["judge"] == "etcd");
  CHECK(read["since"] == 990.0);
  CHECK(read["in_sync"].is_null());
  CHECK(read["standbys"] == json::array({{{"name", "b"},
                                          {"place", "b:29400"},
                                          {"version", "1.3"},
                                          {"in_sync", false},
                                          {"bytes_behind", 9}}}));
  CHECK(read["durable"] == true);
  CHECK(read["trouble"].is_null());
  CHECK(read["last_change"]["from_name"] == "b");
  CHECK(read["last_change"]["silence"] == 0.012345);
  CHECK(read["warnings"].size() == 1);
}

TEST_CASE("a standby names the leader, or null") {
  DaemonSnapshot daemon{
      .name = "b", .leader = "a", .leader_address = "a:29400", .is_in_sync = true};
  json read = json::parse(daemon_json(daemon, later));
  CHECK(read["role"] == "stands_by");
  CHECK(read["leader_place"] == "a:29400");
  CHECK(read["in_sync"] == true);
  CHECK(read["judge"].is_null());
  CHECK(read["durable"].is_null());
  CHECK(read["last_change"].is_null());
  daemon.leader_address.clear();
  read = json::parse(daemon_json(daemon, later));
  CHECK(read["leader_place"].is_null());
}

TEST_CASE("a change of leader is an event of all jobs, with null for unknown values") {
  const json read = json::parse(leader_changed_line(
      {.to = "b", .to_place = "b:29400", .epoch = 3, .reason = "it has begun \xff"}, "host0"));
  CHECK(read["event"] == "leader_changed");
  CHECK(read["job"] == "");
  CHECK(read["host"] == "host0");
  CHECK(read["from"].is_null());
  CHECK(read["to"] == "b:29400");
  CHECK(read["silence"].is_null());
}

}  // namespace daemon_json_test
