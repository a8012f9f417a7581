// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/coordinator.h"

#include <doctest/doctest.h>

#include "rendezvous/job/job_record_json.h"

namespace records_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
const ClockPair here{.now = t0, .wall = WallTime{1'769'000'000s}};

}  // namespace

TEST_CASE("every job has a record, and so has the list of hosts excluded from future jobs") {
  Coordinator coordinator{
      {.options = {.lease = 3s, .status_interval = 5s, .last_call = 30s}, .keeps_records = true}};
  CHECK(all_records(coordinator, here).empty());
  coordinator.handle(t0, Coordinator::Opened{{.link = LinkId{1}, .peer = "10.0.0.1"}});
  coordinator.handle(
      t0, Coordinator::Said{LinkId{1}, link::Join{.job = "j", .host = "alpha", .pid = 1}});
  coordinator.handle(t0, Coordinator::StoreReady{"j", 7});
  coordinator.handle(
      t0,
      Coordinator::Ordered{
          1,
          {.kind = OperatorCommand::Kind::exclude, .whom = "beta", .length = 60s, .by = "uid 7"}});
  const auto records = all_records(coordinator, here);
  REQUIRE(records.size() == 2);
  CHECK(read_job_record(records.at("j"), here)->job() == "j");
  const auto hosts = read_hosts_record(records.at(hosts_record_name), here);
  REQUIRE(hosts);
  CHECK(hosts->at(0).host == "beta");
  CHECK(record_bytes(coordinator, "j", here) == records.at("j"));

  coordinator.handle(
      t0, Coordinator::Ordered{2, {.kind = OperatorCommand::Kind::include, .whom = "beta"}});
  CHECK(record_bytes(coordinator, hosts_record_name, here).empty());
}

}  // namespace records_test
