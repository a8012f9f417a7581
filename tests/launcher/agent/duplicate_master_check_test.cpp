// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/misconfiguration.h"

#include <doctest/doctest.h>

#include "proto/link/bounds.h"
#include "rendezvous/daemon/bounds.h"

namespace duplicate_master_check_test {

using namespace cpprun;

namespace {

constexpr TimePoint t0{};

DuplicateMasterVerdict judge(const link::Hosts& answer) {
  Config config;
  config.rendezvous = RendezvousMode::fixed_master;
  config.endpoint = {"10.0.0.6", 29500};
  config.job = std::string("j");
  return judge_rival(config, {.host = "beta", .pid = 42, .program = {}, .node = {}}, answer);
}

}  // namespace

TEST_CASE("addresses of other machines are probed at once and then at intervals, until stopped") {
  DuplicateMasterCheck rivals;
  rivals.look_at(t0, {"10.0.0.6"});
  CHECK(rivals.next_deadline() == t0);
  CHECK(rivals.take_due(t0) == std::vector<std::string>{"10.0.0.6"});
  CHECK(rivals.take_due(t0).empty());
  CHECK(rivals.next_deadline() == t0 + bounds::status_interval);
  CHECK(rivals.take_due(t0 + bounds::status_interval).size() == 1);
  rivals.stop();
  CHECK(rivals.next_deadline() == std::nullopt);
  CHECK(rivals.take_due(t0 + 2 * bounds::status_interval).empty());
}

TEST_CASE("no address of this machine is probed, and never too many addresses") {
  DuplicateMasterCheck rivals;
  rivals.look_at(t0, {});
  CHECK(rivals.next_deadline() == std::nullopt);
  rivals.look_at(t0, {"1", "2", "3", "4", "5", "6"});
  CHECK(rivals.take_due(t0).size() == bounds::node_addresses_max);
}

TEST_CASE("reaching itself by another route is no duplicate master") {
  CHECK(judge({.job = "j", .host = "beta", .pid = 42, .itself = true}).sentence.empty());
}

TEST_CASE("a second master of the same job is an error") {
  const auto verdict = judge({.job = "j", .host = "alpha", .pid = 7});
  CHECK(verdict.same_job);
  CHECK(verdict.sentence ==
        "job \"j\" has two masters: alpha (pid 7) at 10.0.0.6:29500 and this node, beta; start "
        "only one node with --node-rank=0 (or is_host=true)");
}

TEST_CASE("another job's master and a daemon are reported, and do not end this job") {
  const auto other = judge({.job = "k", .host = "alpha", .pid = 7});
  CHECK_FALSE(other.same_job);
  CHECK(other.sentence.find("the other nodes of this job connect to 10.0.0.6:29500, where alpha is "
                            "the master of another job, \"k\": ") == 0);
  const auto daemon = judge({});
  CHECK_FALSE(daemon.same_job);
  CHECK(daemon.sentence.find("a cpprund listens at 10.0.0.6:29500") == 0);
}

}  // namespace duplicate_master_check_test
