// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/job_record_json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "rendezvous/job/operator_command.h"

namespace exclusions_json_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

// This machine has been up for an hour, the later one for a minute.
const ClockPair here{.now = TimePoint{1h}, .wall = WallTime{1'769'000'000s}};
const ClockPair later{.now = TimePoint{1min}, .wall = WallTime{1'769'000'600s}};

const std::vector<Exclusions::Entry> hosts = {
    {.host = "n3", .until = TimePoint{2h}, .why = "uid 7 excluded n3"},
    {.host = "n4", .until = TimePoint{3h}, .why = "it is slow"}};

using Json = nlohmann::json;

std::string cbor(const Json& json) {
  std::string bytes;
  Json::to_cbor(json, bytes);
  return bytes;
}

}  // namespace

TEST_CASE("an exclusion ends at the same wall-clock time on another machine") {
  const auto bytes = hosts_record_bytes(hosts, here);
  CHECK(is_hosts_record(bytes));
  CHECK(read_hosts_record(bytes, here) == hosts);
  const auto read = read_hosts_record(bytes, later);
  REQUIRE(read);
  CHECK(read->at(0).until == TimePoint{1min} + 50min);
  CHECK(read->at(1).why == hosts[1].why);
}

TEST_CASE("a wrong clock does not extend an exclusion beyond the longest allowed") {
  const ClockPair long_ago{.now = TimePoint{1h}, .wall = WallTime{1s}};
  const auto read = read_hosts_record(hosts_record_bytes(hosts, here), long_ago);
  REQUIRE(read);
  CHECK(read->at(0).until == long_ago.now + bounds::exclusion_max);
}

TEST_CASE("an invalid record of excluded hosts is rejected with a reason") {
  CHECK_FALSE(is_hosts_record("garbage"));
  CHECK_FALSE(is_hosts_record(cbor({{"cpprund_record", 1}})));
  CHECK(read_hosts_record(cbor({{"cpprund_hosts", 2}, {"exclusions", Json::array()}}), here)
            .error()
            .reason == "is of version 2, but this cpprund reads version 1");
  for (const Json& wrong :
       {Json(7), Json::array({7}), Json::array({{{"host", "n3"}, {"why", "x"}}}),
        Json::array({{{"host", "n3"}, {"until", 9e18}, {"why", "x"}}}),
        Json::array({{{"host", "n3"}, {"until", Json()}, {"why", "x"}}})}) {
    CHECK_FALSE(read_hosts_record(cbor({{"cpprund_hosts", 1}, {"exclusions", wrong}}), here));
  }
}

}  // namespace exclusions_json_test
