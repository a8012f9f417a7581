// SPDX-License-Identifier: BSD-3-Clause
// A coordinator that is the standby of another.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "rendezvous/coordinator/coordinator.h"

namespace succession_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
constexpr LinkId first{100};

link::Join join_of(int rank, std::uint32_t vote = 0) {
  return {.job = "j",
          .host = "host" + std::to_string(rank),
          .pid = 100 + rank,
          .agent = 7,
          .nodes_min = 1,
          .nodes_max = 5,
          .lease = 3s,
          .can_lead = true,
          .vote = RoundNumber{vote}};
}

// Round 4 of nodes 0 to 4: the first hosts the coordinator and the second is the standby.
JobRecord left_behind(int nodes = 5) {
  JobRecord record{.round = RoundNumber{4}, .phase = Round::Phase::sealed, .world_size = nodes};
  for (int rank = 0; rank < nodes; ++rank) {
    record.nodes.push_back({.join = join_of(rank),
                            .peer = "10.0.0." + std::to_string(rank),
                            .state = Member::State::running,
                            .group_rank = GroupRank{rank},
                            .ranks = {Rank{rank}, rank, nodes},
                            .hosts = rank == 0});
  }
  return record;
}

struct Standby {
  explicit Standby(int nodes = 5) {
    coordinator.handle(t0, Coordinator::RecordReceived{left_behind(nodes), first});
  }
  Coordinator::Actions come(LinkId link, const link::Join& join) {
    coordinator.handle(t0, Coordinator::Opened{{.link = link, .peer = "10.1.0.9"}});
    auto actions = coordinator.handle(t0, Coordinator::Said{link, join});
    CHECK_FALSE(coordinator.check());
    return actions;
  }
  Coordinator::Actions stand(std::uint32_t vote = 4) {
    return coordinator.handle(t0, Coordinator::VoteRequest{join_of(1, vote)});
  }
  Coordinator coordinator{
      {.only = JobTerms{.id = "j", .nodes_min = 1, .nodes_max = 5},
       .options =
           {.lease = 3s, .status_interval = 5s, .last_call = 30s, .store_port = 7, .standby = true},
       .stands_by = true}};
};

template <class M>
const M* said(const Coordinator::Actions& actions, LinkId link) {
  for (const auto& each : actions) {
    const auto* say = std::get_if<coordinator::Say>(&each);
    if (say != nullptr && say->link == link && std::holds_alternative<M>(say->message)) {
      return &std::get<M>(say->message);
    }
  }
  return nullptr;
}

bool leads(const Coordinator::Actions& actions) {
  return std::ranges::any_of(
      actions, [](const auto& each) { return std::holds_alternative<coordinator::Lead>(each); });
}

}  // namespace

TEST_CASE("a standby leads with the votes of more than half of the round, including its own") {
  Standby standby;
  CHECK_FALSE(leads(standby.stand()));
  const auto second = standby.come(LinkId{201}, join_of(2, 4));
  CHECK_FALSE(leads(second));
  CHECK(said<link::Waiting>(second, LinkId{201})->reason ==
        "the coordinator is lost, and its standby has the votes of 2 of the 5 nodes of round 4; it "
        "needs 3");
  CHECK(standby.coordinator.stands_by());
  const auto third = standby.come(LinkId{202}, join_of(3, 4));
  CHECK(leads(third));
  REQUIRE(standby.coordinator.knows("j"));
  const Job& job = *standby.coordinator.find("j");
  CHECK(job.round().phase() == Round::Phase::draining);
  // The master's node is gone; one node is still waited for, since it may compute.
  CHECK(job.round().size() == 4);
  CHECK(job.round().away() == 2);
}

TEST_CASE("a standby needs the number of votes in its record, and a node that leaves has no vote") {
  Standby standby;
  JobRecord record = left_behind();
  record.votes_needed = 4;
  record.nodes[4].leaving = true;
  standby.coordinator.handle(t0, Coordinator::RecordReceived{record, first});
  standby.stand();
  for (const int rank : {2, 3, 4}) {
    CHECK_FALSE(leads(standby.come(LinkId{200 + std::uint64_t(rank)}, join_of(rank, 4))));
  }
  // The coordinator sends the record again when other nodes have left.
  record.votes_needed = 3;
  standby.coordinator.handle(t0, Coordinator::RecordReceived{record, first});
  CHECK(leads(standby.come(LinkId{205}, join_of(3, 4))));
}

TEST_CASE("a node has one vote, however often it sends it, and others have none") {
  Standby standby;
  standby.stand();
  for (std::uint64_t link : {201, 202, 203})
    CHECK_FALSE(leads(standby.come(LinkId{link}, join_of(2, 4))));
  CHECK_FALSE(leads(standby.come(LinkId{204}, join_of(9, 4))));
  CHECK_FALSE(leads(standby.come(LinkId{205}, join_of(1, 4))));  // itself
  // the host of the other coordinator
  CHECK_FALSE(leads(standby.come(LinkId{206}, join_of(0, 4))));
  CHECK_FALSE(leads(standby.come(LinkId{207}, join_of(3))));  // without a vote
  CHECK(leads(standby.come(LinkId{208}, join_of(4, 4))));
}

TEST_CASE("votes of another round, or while the coordinator responds, are rejected") {
  Standby standby;
  CHECK(said<link::NotLeading>(standby.come(LinkId{201}, join_of(2, 4)), LinkId{201}) != nullptr);
  standby.stand();
  for (const std::uint32_t round : {3U, 5U}) {
    const auto actions = standby.come(LinkId{round}, join_of(2, round));
    REQUIRE(said<link::NotLeading>(actions, LinkId{round}) != nullptr);
    CHECK_FALSE(leads(actions));
  }
  // A vote for a round that this standby does not know.
  Standby late;
  CHECK_FALSE(leads(late.stand(5)));
  CHECK(said<link::NotLeading>(late.come(LinkId{201}, join_of(2, 5)), LinkId{201}) != nullptr);
}

TEST_CASE("when the coordinator responds again, voters are free to follow it") {
  Standby standby;
  standby.stand();
  standby.come(LinkId{201}, join_of(2, 4));
  const auto freed = standby.stand(0);
  REQUIRE(said<link::NotLeading>(freed, LinkId{201}) != nullptr);
  CHECK(said<link::NotLeading>(freed, LinkId{201})->reason == "the coordinator responds again");
  // That vote is not counted later.
  standby.stand();
  CHECK_FALSE(leads(standby.come(LinkId{202}, join_of(3, 4))));
}

TEST_CASE("a voter that left does not count, and an older record does not replace a newer one") {
  Standby standby;
  standby.stand();
  standby.come(LinkId{201}, join_of(2, 4));
  standby.coordinator.handle(t0, Coordinator::Closed{LinkId{201}, "gone", true});
  CHECK_FALSE(leads(standby.come(LinkId{202}, join_of(3, 4))));
  auto older = left_behind();
  older.round = RoundNumber{3};
  standby.coordinator.handle(t0, Coordinator::RecordReceived{older, LinkId{150}});
  CHECK(leads(standby.come(LinkId{203}, join_of(4, 4))));
}

TEST_CASE("two of three nodes continue at once as the next round") {
  Standby standby{3};
  standby.stand();
  const auto lead = standby.come(LinkId{201}, join_of(2, 4));
  CHECK(leads(lead));
  standby.coordinator.handle(
      t0, Coordinator::Opened{{.link = LinkId{209}, .peer = "127.0.0.1", .local = true}});
  const auto sealed = standby.coordinator.handle(t0, Coordinator::Said{LinkId{209}, join_of(1)});
  CHECK_FALSE(standby.coordinator.check());
  REQUIRE(said<link::Sealed>(sealed, LinkId{201}) != nullptr);
  CHECK(said<link::Sealed>(sealed, LinkId{201})->round == RoundNumber{5});
  CHECK(said<link::Sealed>(sealed, LinkId{201})->restart_count == 0);
  CHECK(said<link::Sealed>(sealed, LinkId{209})->group_rank == GroupRank{0});
}

TEST_CASE("a restarted master redirects all nodes to the leader") {
  Coordinator anew{{.only = JobTerms{.id = "j", .nodes_min = 1, .nodes_max = 5},
                    .options = {.lease = 3s, .last_call = 30s, .standby = true}}};
  anew.handle(t0, Coordinator::Opened{{.link = LinkId{201}, .peer = "127.0.0.1", .local = true}});
  anew.handle(t0, Coordinator::Said{LinkId{201}, join_of(0)});
  anew.handle(t0, Coordinator::Opened{{.link = LinkId{202}, .peer = "10.0.0.1"}});
  const auto redirected =
      anew.handle(t0, Coordinator::Said{LinkId{202}, link::WhoHosts{.job = "j",
                                                                    .host = "host1",
                                                                    .leads_address = "10.0.0.1",
                                                                    .leads_port = 4711}});
  REQUIRE(said<link::Led>(redirected, LinkId{201}) != nullptr);
  CHECK(said<link::Led>(redirected, LinkId{201})->port == 4711);
  anew.handle(t0, Coordinator::Opened{{.link = LinkId{203}, .peer = "10.0.0.5"}});
  const auto late = anew.handle(t0, Coordinator::Said{LinkId{203}, join_of(4)});
  REQUIRE(said<link::Led>(late, LinkId{203}) != nullptr);
  CHECK_FALSE(anew.check());
}

TEST_CASE("a standby that receives leadership leads without a vote and loses nothing") {
  Standby standby;
  const auto actions =
      standby.coordinator.handle(t0, Coordinator::VoteRequest{join_of(1), /*is_transfer=*/true});
  CHECK(leads(actions));
  const Job* const job = standby.coordinator.find("j");
  REQUIRE(job != nullptr);
  CHECK(job->round().phase() == Round::Phase::draining);
  CHECK(job->round().size() == 4);
  CHECK(job->rounds().round_end().failures.root() == nullptr);
  CHECK_FALSE(standby.coordinator.check());
}

TEST_CASE("a vote that was declined does not count when it arrives again over an older link") {
  Standby standby;
  auto late = join_of(2, 4);
  late.sent = link::AgentTime{1000};
  auto declined = join_of(2, 4);
  declined.sent = link::AgentTime{2000};
  // It does not campaign yet.
  REQUIRE(said<link::NotLeading>(standby.come(LinkId{2}, declined), LinkId{2}) != nullptr);
  standby.stand();
  CHECK_FALSE(leads(standby.come(LinkId{3}, join_of(3, 4))));
  CHECK_FALSE(leads(standby.come(LinkId{1}, late)));
  declined.sent = link::AgentTime{3000};
  CHECK(leads(standby.come(LinkId{4}, declined)));
}

}  // namespace succession_test
