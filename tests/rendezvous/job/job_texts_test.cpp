// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/job_texts.h"

#include <doctest/doctest.h>

namespace job_texts_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

const JobTerms terms{.id = "j", .nodes_min = 1, .nodes_max = 2};

Round round_of(int nodes) {
  Round round;
  for (int i = 0; i < nodes; ++i) {
    round.enter(LinkId{static_cast<std::uint64_t>(i + 1)},
                {.join = {.host = "h" + std::to_string(i)}, .peer = "10.0.0.1"});
  }
  return round;
}

}  // namespace

TEST_CASE("an elastic job reports with how many nodes it starts, and when") {
  CHECK(status_of(round_of(1), terms, {.reason = "", .last_call = 11'500ms}) ==
        "1 of 2 nodes have joined; starts with 1 in 12 s if no other node joins");
  CHECK(status_of(round_of(1), terms, {.reason = ""}) == "1 of 2 nodes have joined");
}

TEST_CASE("a restart delay is reported with its reason and length") {
  CHECK(status_of(round_of(2), terms,
                  {.reason = "rank 1 on b failed: restart 1 of 3", .pause = 8s}) ==
        "rank 1 on b failed: restart 1 of 3, in 8 s (--restart-backoff)");
}

TEST_CASE("while workers are still ending, the message says which") {
  Round round = round_of(2);
  round.seal(2, {});
  round.set_state(LinkId{2}, Member::State::succeeded, {});
  round.break_up();
  CHECK(status_of(round, terms, {.reason = "rank 1 on h0 failed"}) ==
        "rank 1 on h0 failed; waiting for node 0 on h0, node 1 on h1 to stop the workers");
}

TEST_CASE("a message is composed for a lost node, which cannot send one") {
  Round round = round_of(1);
  round.seal(1, {});
  const link::Failure failure = failure_of_lost(*round.find(LinkId{1}), 3s);
  CHECK(failure.host == "h0");
  CHECK(failure.cause == "node_lost");
  CHECK(failure.message ==
        "node 0 on h0 (10.0.0.1) is lost: no response for 3 s; the machine, its network or its "
        "cpprun is down");
}

TEST_CASE(
    "a lost node is reported with its last contact, and without an address on its own machine") {
  Round round = round_of(1);
  round.seal(1, {});
  Member member = *round.find(LinkId{1});
  member.peer = "127.0.0.1";
  const WallTime time{std::chrono::seconds(1'795'000'000)};
  const link::Failure failure = failure_of_lost(member, 3s, time);
  CHECK(failure.time == time);
  CHECK(failure.message.starts_with("node 0 on h0 is lost: "));
}

TEST_CASE("a change of a node names its host, and its rank once it has had a seat") {
  using Kind = coordinator::NodeChange::Kind;
  Round round = round_of(1);
  CHECK(change_of(*round.find(LinkId{1}), Kind::joined) ==
        coordinator::NodeChange{.kind = Kind::joined, .host = "h0"});
  round.seal(1, {});
  CHECK(
      change_of(*round.find(LinkId{1}), Kind::lost, "no response for 3 s") ==
      coordinator::NodeChange{
          .kind = Kind::lost, .host = "h0", .rank = GroupRank{0}, .reason = "no response for 3 s"});
}

TEST_CASE("a job without an explicit id is not called none") {
  CHECK(quoted_job("train") == "job \"train\"");
  CHECK(quoted_job("none") == "the job");
}

TEST_CASE("an unreachable address is reported with its host name") {
  Round round;
  round.enter(LinkId{1}, {.join = {.host = "alpha"}, .peer = "127.0.0.1"});
  round.enter(LinkId{2},
              {.join = {.host = "beta", .addresses = {"10.79.0.2"}}, .peer = "10.0.0.2"});
  CHECK(with_host_of_address("eth1 (10.79.0.1) cannot connect to 10.79.0.2; eth0 leads", round) ==
        "eth1 (10.79.0.1) cannot connect to 10.79.0.2 (beta); eth0 leads");
  CHECK(with_host_of_address("cannot connect to 10.0.0.2", round) ==
        "cannot connect to 10.0.0.2 (beta)");
  CHECK(with_host_of_address("cannot connect to 10.0.0.9; so", round) ==
        "cannot connect to 10.0.0.9; so");
  CHECK(with_host_of_address("exited with code 1", round) == "exited with code 1");
}

}  // namespace job_texts_test
