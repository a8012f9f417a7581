// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/leases.h"

#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "rendezvous/job/bounds.h"

namespace round_votes_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
constexpr Duration lease = 3s;
// A node follows for this long after a message from it.
constexpr Duration timeout = bounds::vote_timeout(lease) - bounds::fence_margin;

LinkId link(std::uint64_t number) {
  return LinkId{number};
}

// The coordinator's node and these.
RoundVotes of_nodes(std::size_t nodes) {
  RoundVotes votes{lease};
  votes.begin(nodes);
  votes.appoint(link(1));
  for (std::uint64_t each = 1; each < nodes; ++each) votes.may_vote(link(each), t0);
  return votes;
}

}  // namespace

TEST_CASE("leadership cannot be lost before any node knows of a standby") {
  RoundVotes votes{lease};
  votes.begin(3);
  CHECK_FALSE(votes.may_be_lost());
  CHECK_FALSE(votes.until());
  CHECK(votes.is_decided());
}

TEST_CASE("the lease lasts as long as half of the nodes follow, the coordinator's own included") {
  for (const auto& [nodes, others] : {std::pair{3, 1}, {4, 1}, {5, 2}, {6, 2}, {7, 3}}) {
    CAPTURE(nodes);
    // None of them is the standby.
    auto votes = of_nodes(static_cast<std::size_t>(nodes));
    for (int each = 0; each < others; ++each) {
      CHECK(votes.until() == t0 + timeout);
      votes.heard(link(static_cast<std::uint64_t>(2 + each)), t0 + 1s);
    }
    CHECK(votes.until() == t0 + 1s + timeout);
    // The remaining nodes are not a majority.
    CHECK(static_cast<std::size_t>(nodes - 1 - others) < votes_to_lead(nodes));
    CHECK(static_cast<std::size_t>(nodes - others) >= votes_to_lead(nodes));
  }
}

TEST_CASE("the lease lasts as long as the standby follows, since only the standby could lead") {
  auto votes = of_nodes(5);
  votes.heard(link(1), t0 + 2s);
  CHECK(votes.until() == t0 + 2s + timeout);
  votes.released(link(1));
  CHECK(votes.is_decided());
}

TEST_CASE("enough nodes that know of the end of the round settle it for good") {
  auto votes = of_nodes(5);
  votes.released(link(3));
  CHECK(votes.until() == t0 + timeout);
  CHECK_FALSE(votes.is_decided());
  votes.released(link(4));
  CHECK(votes.is_decided());
  CHECK(votes.may_be_lost());
  votes.begin(4);
  CHECK_FALSE(votes.may_be_lost());
}

TEST_CASE("a late or unknown message has no effect, and a new link is the same node") {
  auto votes = of_nodes(3);
  votes.heard(link(2), t0 + 1s);
  votes.heard(link(2), t0);
  votes.heard(link(9), t0 + 8s);
  votes.released(link(9));
  CHECK(votes.until() == t0 + 1s + timeout);
  votes.moved(link(1), link(7));
  votes.heard(link(7), t0 + 2s);
  CHECK(votes.until() == t0 + 2s + timeout);
}

TEST_CASE("a node that does not know of the standby cannot vote and counts as a follower") {
  RoundVotes votes{lease};
  votes.begin(5);
  votes.appoint(link(1));
  votes.may_vote(link(1), t0);
  votes.may_vote(link(2), t0);
  CHECK(votes.is_decided());
  votes.may_vote(link(3), t0);
  CHECK(votes.until() == t0 + timeout);
}

TEST_CASE("a node that may already vote is not assumed to have received a message") {
  auto votes = of_nodes(3);
  votes.may_vote(link(1), t0 + 1s);
  votes.may_vote(link(2), t0 + 1s);
  CHECK(votes.until() == t0 + timeout);
}

namespace {

// Standby 1 is lost, and node 2 is its replacement. `gone` more nodes, the last ones, are lost too.
std::vector<LinkId> voters_without(std::size_t nodes, std::size_t gone) {
  std::vector<LinkId> voters;
  for (std::uint64_t each = 2; each < nodes - gone; ++each) voters.push_back(link(each));
  return voters;
}

// Each node follows the coordinator (0) or votes for standby 1 or 2; the standbys vote for
// themselves. The result says which of the three lead.
std::array<bool, 3> leaders(std::size_t nodes, std::size_t gone, std::size_t needed,
                            const std::vector<int>& follows) {
  RoundVotes votes = of_nodes(nodes);
  REQUIRE(votes.appoint_again(link(2), voters_without(nodes, gone)));
  REQUIRE(votes.votes_needed() == needed);
  std::size_t first = 0;
  std::size_t second = 0;
  for (std::uint64_t each = 1; each < nodes; ++each) {
    if (follows[each] == 0) votes.heard(link(each), t0 + 1s);
    if (follows[each] == 1) ++first;
    if (follows[each] == 2 && each >= 2 && each < nodes - gone) ++second;
  }
  return {votes.until() > t0 + timeout, follows[1] == 1 && first >= votes_to_lead(nodes),
          follows[2] == 2 && second >= needed};
}

}  // namespace

TEST_CASE("at most one of a coordinator, its standby and the replacement leads") {
  for (std::size_t nodes = 4; nodes <= 8; ++nodes) {
    for (std::size_t gone = 0; gone + 3 < nodes; ++gone) {
      RoundVotes votes = of_nodes(nodes);
      // More than half may be cut off together with the first standby and give it a majority.
      const bool is_possible = votes.appoint_again(link(2), voters_without(nodes, gone));
      CHECK(is_possible == (gone + 1 < votes_to_lead(nodes) && nodes - gone > 3));
      if (!is_possible) continue;
      const std::size_t needed = votes.votes_needed();
      CAPTURE(nodes);
      CAPTURE(gone);
      std::array<int, 3> led{};
      std::size_t ways = 1;
      for (std::size_t each = 1; each < nodes; ++each) ways *= 3;
      for (std::size_t way = 0; way < ways; ++way) {
        std::vector<int> follows(nodes);
        std::size_t rest = way;
        for (std::size_t each = 1; each < nodes; ++each, rest /= 3)
          follows[each] = static_cast<int>(rest % 3);
        const auto leads = leaders(nodes, gone, needed, follows);
        const int count = leads[0] + leads[1] + leads[2];
        if (count > 1) FAIL("more than one leads, way ", way);
        for (std::size_t each = 0; each < 3; ++each) led[each] += leads[each];
      }
      for (const int each : led) CHECK(each > 0);
    }
  }
}

TEST_CASE("a standby that has left in order has no majority") {
  auto votes = of_nodes(8);
  votes.released(link(1));
  for (const std::uint64_t each : {5, 6, 7}) votes.released(link(each));
  CHECK(votes.is_decided());
  REQUIRE(votes.appoint_again(link(2), {link(2), link(3), link(4)}));
  CHECK(votes.votes_needed() == 3);
  CHECK(votes.until() == t0 + timeout);
  // Two of three are not a majority of them and the coordinator's node.
  votes.heard(link(4), t0 + 1s);
  CHECK(votes.until() == t0 + 1s + timeout);
  CHECK_FALSE(votes.appoint_again(link(2), {link(2)}));
}

}  // namespace round_votes_test
