// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/report_json.h"

#include <doctest/doctest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "proto/fields_json.h"

namespace failure_json_test {

using namespace cpprun;

TEST_CASE("a failure as JSON has all members") {
  const link::Failure failure{.rank = Rank{3},
                              .local_rank = LocalRank{1},
                              .group_rank = GroupRank{2},
                              .host = "node2",
                              .pid = 42,
                              .status = {true, SIGKILL},
                              .time = WallTime{std::chrono::milliseconds(1500)},
                              .message = "",
                              .cause = "out_of_memory",
                              .consequence = false};
  const auto json = to_json(failure, "./train");
  CHECK(json.at("rank") == 3);
  CHECK(json.at("node") == 2);
  CHECK(json.at("exit_code") == 137);
  CHECK(json.at("signal") == "SIGKILL");
  CHECK(json.at("time") == 1.5);
  CHECK(json.at("reason") == "killed by the kernel: out of memory");
  CHECK_FALSE(json.at("advice").get<std::string>().empty());
}

TEST_CASE("an unknown cause of a newer cpprun is passed on without a description") {
  const auto json = to_json({.cause = "quantum_noise"}, "");
  CHECK(json.at("cause") == "quantum_noise");
  CHECK(json.at("reason") == "");
  CHECK(json.at("signal").is_null());
}

TEST_CASE("half a character in a worker's message does not break the JSON") {
  nlohmann::ordered_json json;
  json["message"] = "half \xE2\x82";
  CHECK(text_of_json(json).starts_with("{\"message\":\"half "));
}

}  // namespace failure_json_test
