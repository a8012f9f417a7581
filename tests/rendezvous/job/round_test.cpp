// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/round.h"

#include <doctest/doctest.h>

namespace round_test {

using namespace cpprun;

namespace {

constexpr LinkId a{1};
constexpr LinkId b{2};
constexpr LinkId c{3};

Member member(std::string host, std::optional<int> node_rank = {}, int workers = 1) {
  return {.join = {.job = "j",
                   .host = std::move(host),
                   .pid = 7,
                   .node_rank = node_rank,
                   .local_world_size = workers},
          .peer = "10.0.0.1"};
}

}  // namespace

TEST_CASE("a round goes from gathering through sealed and draining back to gathering") {
  Round round;
  round.enter(a, member("a"));
  round.enter(b, member("b"));
  CHECK(round.count(Member::State::waiting) == 2);
  CHECK(round.seal(9, {}).size() == 2);
  CHECK(round.number() == RoundNumber{1});
  CHECK(round.count(Member::State::running) == 2);
  round.break_up();
  round.set_state(a, Member::State::drained, {});
  round.set_state(b, Member::State::drained, {});
  round.gather_again({});
  CHECK(round.phase() == Round::Phase::gathering);
  CHECK(round.count(Member::State::waiting) == 2);
  CHECK(round.count(Member::State::drained) == 0);
}

TEST_CASE("survivors keep their order in the next round and a new node comes last") {
  Round round;
  round.enter(a, member("m"));
  round.enter(b, member("x"));
  round.seal(9, {});
  round.break_up();
  round.set_state(a, Member::State::drained, {});
  round.set_state(b, Member::State::drained, {});
  round.gather_again({});
  round.leave(a);
  round.enter(c, member("a"));
  round.seal(9, {});
  CHECK(round.find(b)->group_rank == GroupRank{0});
  CHECK(round.find(c)->group_rank == GroupRank{1});
}

TEST_CASE("a seat that its node has left is free") {
  Round round;
  round.enter(a, member("a", 0));
  CHECK(round.holder_of(0)->join.host == "a");
  round.leave(a);
  CHECK(round.holder_of(0) == nullptr);
  CHECK(round.size() == 0);
  round.leave(a);
  CHECK(round.count(Member::State::waiting) == 0);
}

TEST_CASE("a taken seat can be claimed, and the claimant gets it when the holder is gone") {
  Round round;
  round.enter(a, member("a", 0));
  CHECK_FALSE(round.claimant_of(0));
  round.enter(b, member("b", 0));
  CHECK(round.holder_of(0) == round.find(a));
  CHECK(round.claimant_of(0) == b);
  CHECK(round.claims() == 1);
  CHECK_FALSE(round.check());
  round.move(a, c);
  CHECK(round.holder_of(0) == round.find(c));
  round.leave(c);
  CHECK(round.holder_of(0) == round.find(b));
  CHECK(round.claims() == 0);
  CHECK_FALSE(round.check());
  round.enter(a, member("a", 0));
  round.leave(a);
  CHECK(round.claims() == 0);
  CHECK(round.holder_of(0) == round.find(b));
}

TEST_CASE("an agent keeps its seat when it uses another link") {
  Round round;
  round.enter(a, member("a", 0));
  CHECK(round.find_agent({.host = "a", .pid = 7}, "10.0.0.1") == a);
  CHECK(round.find_agent({.host = "a", .pid = 8}, "10.0.0.1") == std::nullopt);
  round.move(a, c);
  CHECK(round.find(a) == nullptr);
  CHECK(round.find(c)->join.host == "a");
  CHECK(round.holder_of(0) == round.find(c));
}

TEST_CASE("missing nodes are listed by rank where ranks are known, and the list is short") {
  Round round;
  round.enter(a, member("a", 1));
  CHECK(round.who_is_missing(3) == "1 of 3 nodes have joined; missing: node rank 0, node rank 2");
  CHECK(round.who_is_missing(100).ends_with("node rank 8 and others"));
  round.enter(b, member("b"));
  CHECK(round.who_is_missing(3) == "2 of 3 nodes have joined");
}

TEST_CASE("nodes in one state are listed by number and host, in order") {
  Round round;
  round.enter(a, member("a", 1));
  round.enter(b, member("b", 0));
  CHECK(round.who_is(Member::State::waiting) == "a, b");
  round.seal(9, {});
  CHECK(round.who_is(Member::State::running) == "node 0 on b, node 1 on a");
  CHECK(round.who_is(Member::State::drained).empty());
}

TEST_CASE("surplus nodes wait as spares, and survivors keep their seats before new nodes get one") {
  Round round;
  round.enter(a, member("a"));
  round.enter(b, member("b"));
  round.enter(c, member("c"));
  CHECK(round.seal(2, {}).size() == 2);
  CHECK(round.find(c)->state == Member::State::waiting);
  CHECK(round.seated() == 2);
  round.break_up();
  round.set_state(a, Member::State::drained, {});
  round.set_state(b, Member::State::drained, {});
  round.gather_again({});
  round.leave(a);
  CHECK(round.seal(2, {}).size() == 2);
  CHECK(round.find(b)->group_rank == GroupRank{0});
  CHECK(round.find(c)->group_rank == GroupRank{1});
}

TEST_CASE("an agent is found by host and pid, whatever link it uses") {
  Round round;
  round.enter(a, member("x"));
  round.enter(b, member("y"));
  CHECK(round.find_agent({.host = "y", .pid = 7}, "10.0.0.1") == b);
  CHECK_FALSE(round.find_agent({.host = "y", .pid = 8}, "10.0.0.1").has_value());
  round.move(b, c);
  CHECK(round.find_agent({.host = "y", .pid = 7}, "10.0.0.1") == c);
  CHECK(round.find_agent({.host = "x", .pid = 7}, "10.0.0.1") == a);
  round.leave(c);
  CHECK_FALSE(round.find_agent({.host = "y", .pid = 7}, "10.0.0.1").has_value());
}

TEST_CASE("two links of one agent are two members until one of them leaves") {
  Round round;
  round.enter(a, member("x"));
  round.enter(b, member("x"));
  round.leave(a);
  CHECK(round.find_agent({.host = "x", .pid = 7}, "10.0.0.1") == b);
}

TEST_CASE("with fewer seats than nodes, survivors come first and then the order of arrival") {
  Round round;
  round.enter(c, member("a"));
  round.seal(9, {});
  round.break_up();
  round.set_state(c, Member::State::drained, {});
  round.gather_again({});
  round.enter(b, member("b"));
  round.enter(a, member("c"));
  CHECK(round.seal(2, {}).size() == 2);
  CHECK(round.find(c)->state == Member::State::running);
  CHECK(round.find(a)->state == Member::State::running);
  CHECK(round.find(b)->state == Member::State::waiting);
}

TEST_CASE("two containers with the same host name and pid are two agents") {
  Round round;
  round.enter(a, member("x"));
  CHECK(round.find_agent({.host = "x", .pid = 7}, "10.0.0.1") == a);
  CHECK_FALSE(round.find_agent({.host = "x", .pid = 7, .agent = 1}, "10.0.0.1").has_value());
}

TEST_CASE("a node that was asked to stop is present but does not stay") {
  Round round;
  round.enter(a, member("a"));
  round.enter(b, member("b"));
  round.mark_leaving(a);
  round.mark_leaving(a);
  CHECK(round.size() == 2);
  CHECK(round.staying() == 1);
  round.leave(a);
  CHECK(round.staying() == 1);
}

}  // namespace round_test
