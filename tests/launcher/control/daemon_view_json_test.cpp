// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/views.h"

#include <doctest/doctest.h>

#include "rendezvous/status/status_json.h"

namespace daemon_view_json_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

const ClockPair later{.now = TimePoint{} + 10s, .wall = WallTime{} + 1000s};

}  // namespace

TEST_CASE("the daemon view is read from JSON") {
  const DaemonSnapshot daemon{
      .name = "b",
      .place = "b:1",
      .version = "1.2",
      .has_etcd = true,
      .epoch = 9,
      .since = WallTime{} + 990s,
      .leader = "a",
      .leader_address = "a:1",
      .is_in_sync = true,
      .standbys = {{.name = "c", .place = "c:1", .version = "1", .bytes_behind = 7}},
      .durable = false,
      .is_synced = true,
      .trouble = "none answers",
      .last_change = LeaderChange{
          .time = WallTime{} + 990s, .from = "c", .to = "a", .reason = "r", .silence = 2s}};
  const auto view = daemon_view(daemon_json(daemon, later));
  REQUIRE(view);
  CHECK(view->name == "b");
  CHECK(view->place == "b:1");
  CHECK(view->version == "1.2");
  CHECK_FALSE(view->leads);
  CHECK(view->has_etcd);
  CHECK(view->leader == "a");
  CHECK(view->leader_address == "a:1");
  CHECK(view->epoch == 9);
  CHECK(view->now == 1000);
  CHECK(view->since == 990);
  CHECK(view->is_in_sync);
  REQUIRE(view->standbys.size() == 1);
  CHECK(view->standbys[0].name == "c");
  CHECK(view->standbys[0].bytes_behind == 7);
  CHECK(view->is_durable == false);
  CHECK(view->is_synced);
  CHECK(view->trouble == "none answers");
  REQUIRE(view->last_change);
  CHECK(view->last_change->from == "c");
  CHECK(view->last_change->silence == 2);
  CHECK(view->warnings.size() == 1);
}

TEST_CASE("missing members keep their default, and JSON of anything but a daemon is rejected") {
  const auto view = daemon_view(R"({"role":"leads","standbys":7,"durable":null})");
  REQUIRE(view);
  CHECK(view->leads);
  CHECK(view->standbys.empty());
  CHECK_FALSE(view->is_durable);
  CHECK_FALSE(view->last_change);
  CHECK_FALSE(daemon_view(R"({"jobs":[]})"));
  CHECK_FALSE(daemon_view("nothing"));
}

}  // namespace daemon_view_json_test
