// Found in simulated time (tests/sim): agents that come back through newer links, or to a newer
// master.

#include <doctest/doctest.h>

#include <algorithm>

#include "rendezvous/job.h"
#include "tests/rendezvous/job_table.h"

using namespace cpprun;
using namespace cpprun::testing;

namespace {

constexpr LinkId newer{9};

// The agent of link b dials again, from the same address.
keeper::Actions back(Table& table, TimePoint now, link::Join join, LinkId link = newer) {
  join.restarts_max = table.job.terms().restarts_max;
  keeper::Actions actions;
  table.job.join(now, {link, "10.0.0.2", false}, join, actions);
  return actions;
}

link::Join after(link::Join join, std::uint32_t round) {
  join.after = RoundNumber{round};
  return join;
}

bool hangs_up(const keeper::Actions& actions, LinkId link) {
  return std::any_of(actions.begin(), actions.end(), [link](const keeper::Action& action) {
    const auto* hang_up = std::get_if<keeper::HangUp>(&action);
    return hang_up != nullptr && hang_up->link == link;
  });
}

}  // namespace

TEST_CASE("an agent that dials again while it waits is not refused for being there already") {
  Table table;
  table.join(t0, b, node(1));
  const auto actions = back(table, t0 + 1s, node(1));
  CHECK(said<link::Refused>(actions, newer).empty());
  CHECK(hangs_up(actions, b));
  CHECK(table.job.round().size() == 1);
  CHECK(said<link::Sealed>(table.join(t0 + 1s, a, node(0), true), newer).size() == 1);
}

TEST_CASE("a spare whose link is back hears again that it is one") {
  Table table;
  table.seal();
  auto spare = node(1, 2, "spare");
  spare.node_rank.reset();
  table.join(t0, c, spare);
  keeper::Actions actions;
  table.job.join(t0 + 1s, {newer, "10.0.0.3", false}, spare, actions);
  REQUIRE(said<link::Waiting>(actions, newer).size() == 1);
  CHECK(said<link::Waiting>(actions, newer)[0].spare);
  CHECK(table.job.round().size() == 3);
}

TEST_CASE("another agent with that host's name and pid is somebody else") {
  Table table;
  table.join(t0, b, node(1));
  keeper::Actions actions;
  table.job.join(t0 + 1s, {newer, "10.0.0.77", false}, node(1), actions);
  CHECK(said<link::Refused>(actions, newer).size() == 1);
  CHECK_FALSE(hangs_up(actions, b));
}

TEST_CASE("a join through an older link that arrives last does not take the seat") {
  Table table;
  table.seal();
  for (const auto& join : {node(1), after(node(1), 1)}) {
    const auto actions = back(table, t0 + 1s, join, LinkId{0});
    REQUIRE(actions.size() == 1);
    CHECK(hangs_up(actions, LinkId{0}));
  }
  CHECK(table.job.round().phase() == Round::Phase::sealed);
  CHECK(table.job.round().find(b) != nullptr);
}

TEST_CASE("a seat whose word was lost with the link costs a round and no restart") {
  Table table;
  table.seal();
  const auto actions = back(table, t0 + 1s, node(1));
  CHECK(said<link::Drain>(actions, a).size() == 1);
  CHECK(said<link::Drain>(actions, newer).empty());
  const auto next = table.hear(t0 + 1s, a, link::Drained{RoundNumber{1}});
  REQUIRE(said<link::Sealed>(next, newer).size() == 1);
  CHECK(said<link::Sealed>(next, newer)[0].round == RoundNumber{2});
  CHECK(said<link::Sealed>(next, newer)[0].restart_count == 0);
}

TEST_CASE("what an agent repeats of another master's round is not taken for this one's") {
  Table table{1};
  table.join(t0, a, node(0), true);
  auto drained = after(node(1), 1);
  drained.idle = true;
  const auto sealed = back(table, t0, drained);
  CHECK(said<link::Sealed>(sealed, newer)[0].round == RoundNumber{2});
  const link::Failed repeated{.round = RoundNumber{1}, .failure = {.rank = Rank{2}}};
  CHECK(said<link::Drain>(table.hear(t0, newer, repeated), a).empty());
}

TEST_CASE("who has no seat cannot say that the round has failed") {
  Table table{1};
  table.seal();
  auto spare = node(1, 2, "spare");
  spare.node_rank.reset();
  table.join(t0, c, spare);
  const link::Failed of_another{.round = RoundNumber{1}, .failure = {.rank = Rank{2}}};
  CHECK(said<link::Drain>(table.hear(t0, c, of_another), a).empty());
}

TEST_CASE("whose link broke as the job ended hears the end when it is back") {
  Table table;
  table.seal();
  table.hear(t0, a, link::Succeeded{RoundNumber{1}});
  table.hear(t0, b, link::Succeeded{RoundNumber{1}});
  table.close(t0, a);
  table.close(t0, b, true);
  CHECK(table.job.round().size() == 1);
  const auto actions = back(table, t0 + 1s, after(node(1), 1));
  REQUIRE(said<link::Finish>(actions, newer).size() == 1);
  CHECK(said<link::Finish>(actions, newer)[0].exit_code == 0);
}

TEST_CASE("whose link broke as the job ended is waited for no longer than the lease") {
  Table table;
  table.seal();
  table.hear(t0, a, link::Succeeded{RoundNumber{1}});
  table.hear(t0, b, link::Succeeded{RoundNumber{1}});
  table.close(t0, a);
  table.close(t0, b, true);
  CHECK(table.advance(t0 + 3s).empty());
  CHECK(table.job.round().size() == 0);
}
