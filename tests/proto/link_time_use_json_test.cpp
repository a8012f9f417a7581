// SPDX-License-Identifier: BSD-3-Clause
#include "proto/link/values_json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "proto/link/codec.h"

namespace link_time_use_json_test {

using namespace cpprun;
using namespace cpprun::link;

TEST_CASE("impossible times are rejected") {
  const auto refused = [](const std::string& time) {
    std::string body =
        R"({"say":"finish","code":0,"reason":"","others":[],"other_count":0,"time":)" + time + "}";
    std::string frame(4, '\0');
    frame[0] = static_cast<char>(body.size() & 0xFF);
    frame[1] = static_cast<char>(body.size() >> 8);
    return !decode(frame + body).has_value();
  };
  CHECK_FALSE(refused(R"({"wall":1,"nodes":[1,2,3,4,5,6,7,8,9],"lost":[]})"));
  CHECK(refused(R"({"wall":-1,"nodes":[1,2,3,4,5,6,7,8,9],"lost":[]})"));
  CHECK(refused(R"({"wall":1,"nodes":[1,2,3,4,5,6,7,8],"lost":[]})"));
  CHECK(refused(R"({"wall":1,"nodes":[1,2,3,4,5,6,7,8,9223372036854775807],"lost":[]})"));
  CHECK(refused(R"({"wall":1,"nodes":7,"lost":[]})"));
}

TEST_CASE("the JSON has seconds under the names of the accounts") {
  TimeUse use{.wall = std::chrono::milliseconds{2500}};
  of(use.nodes, Account::training) = std::chrono::seconds{4};
  use.lost = {{.cause = "killed", .host = "beta", .count = 1, .time = {}}};
  of(use.lost[0].time, Account::pausing) = std::chrono::seconds{1};
  of(use.nodes, Account::pausing) = std::chrono::seconds{1};
  const auto json = readable_json(use);
  CHECK(json["wall"] == 2.5);
  CHECK(json["node_seconds"]["training"] == 4.0);
  CHECK(json["node_seconds"].size() == account_count);
  CHECK(json["lost"][0]["cause"] == "killed");
  CHECK(json["lost"][0]["node_seconds"]["pausing"] == 1.0);
  CHECK(json["text"] == to_text(use));
}

}  // namespace link_time_use_json_test
