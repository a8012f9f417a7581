// SPDX-License-Identifier: BSD-3-Clause
// The election of a standby, and the role of a daemon, without a coordinator around them.

#include <doctest/doctest.h>

#include <string>

#include "rendezvous/coordinator/leadership.h"

namespace standby_election_test {

using namespace cpprun;

namespace {

constexpr LinkId first{100};

link::Join node(int rank, std::uint32_t vote = 4) {
  return {.job = "j",
          .host = "host" + std::to_string(rank),
          .pid = 100 + rank,
          .agent = 7,
          .vote = RoundNumber{vote}};
}

// Round 4 of five nodes, the first of which hosts the coordinator. Three votes are needed.
JobRecord record() {
  JobRecord record{.round = RoundNumber{4}};
  for (int rank = 0; rank < 5; ++rank) {
    record.nodes.push_back({.join = node(rank),
                            .peer = "10.0.0." + std::to_string(rank),
                            .state = Member::State::running,
                            .group_rank = GroupRank{rank},
                            .hosts = rank == 0});
  }
  return record;
}

Caller caller(std::uint64_t link) {
  return {.link = LinkId{link}, .peer = "10.1.0." + std::to_string(link)};
}

}  // namespace

TEST_CASE("a standby is elected by a majority of the nodes of its record's round") {
  StandbyElection election;
  election.update(record(), first);
  CHECK_FALSE(election.objection_to(node(2)).empty());  // it has not lost the coordinator itself
  election.stand(node(1));
  CHECK(election.objection_to(node(2)).empty());
  CHECK_FALSE(election.objection_to(node(3, 5)).empty());
  election.add(caller(2), node(2));
  election.add(caller(3), node(2));  // the same node, through another link
  CHECK_FALSE(election.is_elected());
  election.add(caller(4), node(4));
  CHECK(election.is_elected());
  election.close(LinkId{4});
  CHECK_FALSE(election.is_elected());
  election.add(caller(5), node(3));
  const auto elected = election.take();
  CHECK(elected.host == first);
  CHECK(elected.asked.size() == 2);
  CHECK(elected.record.nodes[1].peer == "127.0.0.1");
  CHECK(elected.record.nodes[2].peer == "10.1.0.3");
  CHECK(elected.record.nodes[4].peer == "10.0.0.4");
}

TEST_CASE("a daemon either leads in an epoch, or follows and names the leader") {
  DaemonRole role(/*follows=*/true);
  CHECK(role.objection_to(node(1)));
  CHECK_FALSE(role.change_addresses({"a:1"}));
  role.follow({.reason = "b leads", .address = "10.0.0.2", .port = 7});
  CHECK(role.objection_to(node(1))->address == "10.0.0.2");
  role.lead({.epoch = 3, .places = {"a:1"}});
  CHECK_FALSE(role.following());
  CHECK_FALSE(role.objection_to(node(1)));
  link::Join later = node(1);
  later.epoch = 4;
  CHECK(role.objection_to(later));
  CHECK(role.change_addresses({"a:1", "b:1"}));
  role.follow({.reason = "b leads"});
  CHECK_FALSE(role.members());
}

}  // namespace standby_election_test
