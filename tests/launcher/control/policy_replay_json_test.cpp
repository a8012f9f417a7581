// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "launcher/control/policy_replay.h"

namespace policy_replay_json_test {

using namespace cpprun;

TEST_CASE("the replay's JSON has the same content as its text") {
  const auto trace = read_policy_trace(
      R"({"at": 60, "cause": "hung", "host": "n7", "rank": 3}
{"at": 200, "cause": "node_lost", "host": "n8"}
{"at": 300, "cause": "segfault", "host": "n7"}
{"at": 400, "cause": "segfault", "host": "n9"}
{"at": 500, "cause": "segfault", "host": "n9"})",
      "");
  REQUIRE(trace);
  const RestartRules rules{.max = 1, .host_limit = {2, {}}};
  const auto json = nlohmann::json::parse(replay_json(replay(rules, *trace)));
  CHECK(json["policy"] == "--max-restarts=1 --max-host-failures=2");
  CHECK(json["ended"] == true);
  CHECK(json["restarts_used"] == 1);
  CHECK(json["restarts_left"] == 0);
  REQUIRE(json["failures"].size() == 5);
  CHECK(json["failures"][0]["restart"] == true);
  CHECK(json["failures"][1]["counts"] == false);
  CHECK(json["failures"][2]["reason"] == "all 1 restarts are used");
  CHECK(json["failures"][2]["leaves_out"] == "n7");
  CHECK(json["failures"][3]["reached"] == false);
  CHECK(json["failures"][3]["leaves_out"].is_null());
}

}  // namespace policy_replay_json_test
