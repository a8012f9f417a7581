// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/leader_election.h"

#include <doctest/doctest.h>

#include "proto/state_machine.h"
#include "tests/rendezvous/etcd/election_table.h"

namespace leader_election_test {

using namespace cpprun;
using namespace cpprun::test;
using test::Candidate;  // rendezvous/job has one, too
using Kind = etcd::Failure::Kind;

static_assert(StateMachine<LeaderElection>);

TEST_CASE("invalid options are rejected with a reason") {
  CHECK_FALSE(impossible(options_named("alpha")));
  CHECK(impossible(options_named(""))->find("a name must have 1 to 255 bytes") == 0);
  CHECK(impossible(options_named(std::string(256, 'n'))));
  auto options = options_named("alpha");
  options.card = std::string(100'000, 'c');
  CHECK(impossible(options)->find("the maximum is 16384") != std::string::npos);
  options = options_named("alpha");
  options.endpoints.clear();
  CHECK(impossible(options) == "no etcd endpoint is given");
  options = options_named("alpha");
  options.ttl = 500ms;
  CHECK(impossible(options)->find("is not within 1 to 600 s") != std::string::npos);
}

TEST_CASE("an unreachable etcd and its return are each reported once") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  for (int round = 0; round < 3; ++round) {
    for (int member = 0; member < 3; ++member) {
      alpha.fail(alpha.take(), Kind::unreachable, "connection refused");
      if (round == 0 && member < 1) CHECK(alpha.count<election::Unreachable>() == 0);
    }
    alpha.ring();
  }
  REQUIRE(alpha.count<election::Unreachable>() == 1);
  CHECK(alpha.last<election::Unreachable>().reason ==
        "etcd at http://b:2379 cannot be reached: connection refused");
  alpha.serve();
  CHECK(alpha.count<election::Reachable>() == 1);
  alpha.pass(1s);
  CHECK(alpha.count<election::Reachable>() == 1);
}

TEST_CASE("a candidate that cannot win because etcd is full reports that until it can write") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.tell(election::Enter{});
  alpha.answer(alpha.take());
  for (int each = 0; each < 5; ++each) {
    alpha.fail(alpha.take<etcd::Grant>(), Kind::no_space, "space exceeded");
    while (alpha.count<election::Leads>() == 0 &&
           (alpha.asks().empty() ||
            !std::holds_alternative<etcd::Grant>(alpha.asks().back().request))) {
      if (alpha.asks().empty()) {
        alpha.ring();
      } else {
        alpha.answer(alpha.take());
      }
    }
  }
  CHECK(alpha.count<election::Unwritable>() == 1);
  alpha.serve();
  CHECK(alpha.leads());
  CHECK(alpha.count<election::Writable>() == 1);
  // All leases that may have been granted are revoked, except its own.
  alpha.pass(100ms);
  CHECK(etcd.model.leases() == 1);
}

TEST_CASE("an unexpected response changes nothing") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  const auto ask = alpha.take();
  alpha.answer(ask);
  const auto said = alpha.said().size();
  alpha.answer(ask);
  alpha.tell(election::Answered{AskId{77}, tl::unexpected(etcd::Failure{})});
  CHECK(alpha.said().size() == said);
}

TEST_CASE("a candidate that enters again before it has withdrawn is not reported as withdrawn") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  alpha.tell(election::Withdraw{});
  alpha.tell(election::Enter{});
  alpha.pass(1s);
  CHECK(alpha.count<election::Withdrawn>() == 0);
  CHECK(alpha.leads());
}

TEST_CASE("a withdrawal without leadership completes at once") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.serve();
  alpha.tell(election::Withdraw{});
  CHECK(alpha.count<election::Withdrawn>() == 1);
  alpha.pass(1s);
  CHECK(alpha.count<election::Withdrawn>() == 1);
}

}  // namespace leader_election_test
