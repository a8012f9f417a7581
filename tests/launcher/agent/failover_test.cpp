// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/failover.h"

#include <doctest/doctest.h>

#include "rendezvous/job/bounds.h"

namespace failover_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
constexpr RoundNumber first{1};
constexpr Duration lease = 3s;
constexpr TimePoint votes_from = t0 + bounds::vote_timeout(lease);
const Endpoint master{"10.0.0.1", 29500};
const Endpoint standby_place{"10.0.0.3", 29401};
const link::Standby standby{first, "10.0.0.3", 29401};

CoordinatorLink lost_link() {
  CoordinatorLink link{{.heartbeat = 1s, .lease = lease}};
  link.went_down(t0);
  return link;
}

Endpoint dialled(StandbyFailover& failover, TimePoint now) {
  CoordinatorLink link = lost_link();
  StandbyFailover::Actions actions;
  failover.dial(now, master, link, actions);
  return std::get<agent::Dial>(actions.at(0)).at;
}

}  // namespace

TEST_CASE("a record is complete with its last part, and a part out of order discards it") {
  StandbyFailover failover{lease};
  CHECK_FALSE(failover.record({first, 0, 2, "ab"}));
  CHECK(failover.record({first, 1, 2, "cd"}) == agent::StandBy{first, "abcd"});
  CHECK_FALSE(failover.record({first, 1, 2, "cd"}));
  CHECK_FALSE(failover.record({first, 0, 3, "ab"}));
  CHECK_FALSE(failover.record({first, 2, 3, "ef"}));
  CHECK(failover.record({first, 0, 1, "g"}) == agent::StandBy{first, "g"});
}

TEST_CASE("a vote is cast only after the pause, and binds until the standby declines it") {
  StandbyFailover failover{lease};
  failover.named(standby, /*may_vote=*/true);
  failover.consider_voting(t0, first);
  CHECK(dialled(failover, votes_from - 1ns) == master);
  CHECK(dialled(failover, votes_from) == standby_place);
  StandbyFailover::Actions actions;
  CHECK(failover.vote_on_this_link(actions) == first);
  CHECK(dialled(failover, votes_from + 1s) == standby_place);
  failover.not_leading();
  CHECK(dialled(failover, votes_from + 2s) == master);
  CHECK(failover.vote_on_this_link(actions) == RoundNumber{});
  CHECK_FALSE(failover.exists());
}

TEST_CASE("the standby campaigns once, and withdraws when the master is back") {
  StandbyFailover failover{lease};
  failover.listens({first, 29401});
  failover.named(standby, /*may_vote=*/true);
  CHECK(failover.is_here());
  failover.consider_voting(t0, first);
  CHECK(failover.stands_at() == votes_from);
  CHECK(failover.stand() == first);
  CHECK_FALSE(failover.stands_at());
  CHECK(dialled(failover, votes_from) == master);
  StandbyFailover::Actions actions;
  failover.vote_on_this_link(actions);
  CHECK(actions == StandbyFailover::Actions{agent::Stand{}});
}

TEST_CASE("a cluster's leader is followed into later epochs only") {
  const Endpoint a{"a", 1};
  const Endpoint b{"b", 1};
  ClusterFailover cluster(a, {a, b});
  CoordinatorLink link = lost_link();
  ClusterFailover::Actions actions;
  cluster.dial(t0, /*has_seat=*/true, link, actions);
  CHECK_FALSE(cluster.follow(6));
  cluster.dial(t0, /*has_seat=*/true, link, actions);
  CHECK(cluster.follow(7) == a);
  CHECK(cluster.is_stale(6));
  actions.clear();
  const std::string warning = cluster.reject(6, actions);
  CHECK(actions == ClusterFailover::Actions{events::Note{warning, LogLevel::warning}});
  cluster.reject(6, actions);
  CHECK(actions.size() == 1);
  CHECK(cluster.epoch() == 7);
}

TEST_CASE("former masters are probed one at a time, the previous one first") {
  const Endpoint a{"a", 1};
  const Endpoint b{"b", 1};
  FormerMasters masters;
  CHECK_FALSE(masters.take_due(t0));
  masters.moved(a, b);
  masters.moved(b, {"c", 1});
  masters.search(t0);
  CHECK(masters.take_due(t0) == b);
  CHECK_FALSE(masters.take_due(t0));
  CHECK(masters.take_due(masters.next_deadline()) == a);
  masters.moved({"c", 1}, a);
  CHECK(masters.take_due(masters.next_deadline()) == Endpoint{"c", 1});
  CHECK(masters.take_due(masters.next_deadline()) == b);
}

}  // namespace failover_test
