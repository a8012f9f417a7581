// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/leadership.h"

#include <doctest/doctest.h>

#include "proto/bounds.h"
#include "proto/standby_bounds.h"

namespace leadership_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
constexpr Duration lease = 3s;
// As long as that after it was heard, a node follows.
constexpr Duration patience = bounds::vote_patience(lease) - bounds::fence_margin;

LinkId link(std::uint64_t number) {
  return LinkId{number};
}

// The coordinator's node, and these.
Leadership of_nodes(std::size_t nodes) {
  Leadership leadership{lease};
  leadership.begin(nodes);
  leadership.appoint(link(1));
  for (std::uint64_t each = 1; each < nodes; ++each) leadership.may_vote(link(each), t0);
  return leadership;
}

}  // namespace

TEST_CASE("nothing can take the lead away before anybody has heard of a standby") {
  Leadership leadership{lease};
  leadership.begin(3);
  CHECK_FALSE(leadership.may_be_lost());
  CHECK_FALSE(leadership.until());
  CHECK(leadership.is_settled());
}

TEST_CASE("the lead lasts as long as half of the nodes follow, the coordinator's among them") {
  for (const auto& [nodes, others] : {std::pair{3, 1}, {4, 1}, {5, 2}, {6, 2}, {7, 3}}) {
    CAPTURE(nodes);
    // None of them is the standby.
    auto leadership = of_nodes(static_cast<std::size_t>(nodes));
    for (int each = 0; each < others; ++each) {
      CHECK(leadership.until() == t0 + patience);
      leadership.heard(link(static_cast<std::uint64_t>(2 + each)), t0 + 1s);
    }
    CHECK(leadership.until() == t0 + 1s + patience);
    // Whoever is left is no majority.
    CHECK(static_cast<std::size_t>(nodes - 1 - others) < votes_to_lead(nodes));
    CHECK(static_cast<std::size_t>(nodes - others) >= votes_to_lead(nodes));
  }
}

TEST_CASE("or as long as the standby does, who alone could lead") {
  auto leadership = of_nodes(5);
  leadership.heard(link(1), t0 + 2s);
  CHECK(leadership.until() == t0 + 2s + patience);
  leadership.released(link(1));
  CHECK(leadership.is_settled());
}

TEST_CASE("enough nodes that know of the round's end settle it for good") {
  auto leadership = of_nodes(5);
  leadership.released(link(3));
  CHECK(leadership.until() == t0 + patience);
  CHECK_FALSE(leadership.is_settled());
  leadership.released(link(4));
  CHECK(leadership.is_settled());
  CHECK(leadership.may_be_lost());
  leadership.begin(4);
  CHECK_FALSE(leadership.may_be_lost());
}

TEST_CASE("what is heard late, or of nobody, changes nothing; a new link is the same node") {
  auto leadership = of_nodes(3);
  leadership.heard(link(2), t0 + 1s);
  leadership.heard(link(2), t0);
  leadership.heard(link(9), t0 + 8s);
  leadership.released(link(9));
  CHECK(leadership.until() == t0 + 1s + patience);
  leadership.moved(link(1), link(7));
  leadership.heard(link(7), t0 + 2s);
  CHECK(leadership.standby() == link(7));
  CHECK(leadership.until() == t0 + 2s + patience);
}

TEST_CASE("who was not told of the standby cannot vote, and counts as one who follows") {
  Leadership leadership{lease};
  leadership.begin(5);
  leadership.appoint(link(1));
  leadership.may_vote(link(1), t0);
  leadership.may_vote(link(2), t0);
  CHECK(leadership.is_settled());
  leadership.may_vote(link(3), t0);
  CHECK(leadership.until() == t0 + patience);
}

}  // namespace leadership_test
