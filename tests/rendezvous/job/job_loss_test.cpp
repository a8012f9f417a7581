// SPDX-License-Identifier: BSD-3-Clause
// How the coordinator treats nodes that die, sleep, are cut off, or come back, and its own sleep.

#include <doctest/doctest.h>

#include "rendezvous/job/job.h"
#include "tests/rendezvous/job/job_table.h"

namespace job_loss_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

link::Join any_of_three(std::string host) {
  return {.job = "j", .host = std::move(host), .pid = 7, .nodes_min = 1, .nodes_max = 3};
}

// Three nodes of an elastic job, all with a seat; b and c are remote.
struct Three : Table {
  Three() : Table{0, 1, 3} {
    join(t0, a, any_of_three("alpha"), true);
    join(t0, b, any_of_three("beta"));
    join(t0, c, any_of_three("gamma"));
  }
};

}  // namespace

TEST_CASE("after an agent dies its link breaks, and the others continue when its lease expires") {
  Three three;
  three.close(t0 + 1s, b);
  three.hear(t0 + 2s, c, link::Heartbeat{});
  CHECK(said<link::Drain>(three.awake(t0 + 3s), c)[0].reason == "node 1 on beta is lost");
  const auto next = three.drained(t0 + 3s, 1, {a, c});
  CHECK(said<link::Sealed>(next, c)[0].group_world_size == 2);
}

TEST_CASE("the next round reports a lost node, whatever the survivors have noticed") {
  Three three;
  three.hear(t0 + 2s, c, link::Heartbeat{});
  const link::Failure gone{
      .rank = Rank{2}, .status = {.value = 1}, .cause = "peer_gone", .consequence = true};
  three.hear(t0 + 2s, c, link::Failed{.round = RoundNumber{1}, .failure = gone});
  three.hear(t0 + 2s, c, link::Drained{RoundNumber{1}});
  three.hear(t0 + 2s, a, link::Drained{RoundNumber{1}});
  const auto next = three.awake(t0 + 3s);
  REQUIRE(said<link::Sealed>(next, c).size() == 1);
  const auto verdict = said<link::Sealed>(next, c)[0].failed_before;
  REQUIRE(verdict);
  CHECK(verdict->cause == link::node_lost);
  CHECK(verdict->host == "beta");
  CHECK(verdict->rank == Rank{1});
  // The agent in the coordinator's own process has received it already.
  CHECK_FALSE(said<link::Sealed>(next, a)[0].failed_before);
}

TEST_CASE("silence alone marks a node as lost: a dead network, a half-open link, a one-way link") {
  Three three;
  three.hear(t0 + 2s, c, link::Heartbeat{});
  const auto lost = three.awake(t0 + 3s);
  CHECK(said<link::Drain>(lost, a).size() == 1);
  // Its link looks healthy from here, so it is closed: later messages on it are ignored.
  CHECK(std::any_of(lost.begin(), lost.end(), [](const coordinator::Action& action) {
    const auto* hang_up = std::get_if<coordinator::HangUp>(&action);
    return hang_up != nullptr && hang_up->link == b;
  }));
  CHECK(three.hear(t0 + 3s, b, link::Succeeded{RoundNumber{1}}).empty());
  CHECK(three.hear(t0 + 3s, b, link::Drained{RoundNumber{1}}).empty());
}

TEST_CASE("a node that can send but not receive gives up itself and is lost") {
  Three three;
  three.hear(t0 + 2s, b, link::Heartbeat{});
  three.hear(t0 + 2s, c, link::Heartbeat{});
  // It receives no answer, ends its workers, and closes its link.
  three.close(t0 + 3s, b);
  CHECK(said<link::Drain>(three.advance(t0 + 4s), a).empty());
  three.hear(t0 + 4s, c, link::Heartbeat{});
  CHECK(said<link::Drain>(three.awake(t0 + 5s), a).size() == 1);
}

TEST_CASE("an agent that slept longer than its lease is rejected for its old round") {
  Three three;
  three.hear(t0 + 2s, c, link::Heartbeat{});
  three.awake(t0 + 3s);
  three.drained(t0 + 3s, 1, {a, c});
  auto late = any_of_three("beta");
  late.after = RoundNumber{1};
  const auto refused = said<link::Refused>(three.join(t0 + 60s, LinkId{9}, late), LinkId{9});
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].reason.find("which this coordinator does not run") != std::string::npos);
  CHECK(three.job.round().size() == 2);
}

TEST_CASE("an agent whose workers have ended rejoins like a new one") {
  Three three;
  three.hear(t0 + 2s, c, link::Heartbeat{});
  three.awake(t0 + 3s);
  three.drained(t0 + 3s, 1, {a, c});
  auto back = any_of_three("beta");
  back.after = RoundNumber{1};
  back.idle = true;
  const auto polite = three.join(t0 + 4s, LinkId{9}, back);
  CHECK(said<link::Refused>(polite, LinkId{9}).empty());
  CHECK(said<link::Drain>(polite, a)[0].reason == "1 more node joined");
}

namespace {

// From the address of the older link.
coordinator::Actions join_from(Table& table, LinkId older, LinkId link, link::Join what) {
  what.restarts = table.job.terms().restarts;
  coordinator::Actions actions;
  table.job.join(t0 + 1s, {link, "10.0.0." + std::to_string(older.value), false}, what, actions);
  CHECK_FALSE(table.job.check());
  return actions;
}

}  // namespace

TEST_CASE("an agent that missed its seat because its link broke receives it again") {
  Table table{1};
  table.seal();
  table.hear(t0, a, link::Failed{.round = RoundNumber{1}, .failure = {.rank = Rank{0}}});
  const auto sent = table.drained(t0, 1, {b, a});  // the message to b is lost
  auto back = node(1);
  back.after = RoundNumber{1};
  back.idle = true;
  const auto again = table.join(t0 + 1s, c, back);
  CHECK(said<link::Drain>(again, a).empty());
  CHECK(said<link::Sealed>(again, a).empty());
  CHECK(said<link::Sealed>(again, c) == said<link::Sealed>(sent, b));
  CHECK(said<link::Sealed>(again, c)[0].restart_count == 1);
  // Until b confirms it.
  back.after = RoundNumber{2};
  back.idle = false;
  const auto heard = table.join(t0 + 2s, LinkId{9}, back);
  CHECK(said<link::Sealed>(heard, LinkId{9}).empty());
}

TEST_CASE("an agent that never had a seat receives its first seat again") {
  Table table;
  table.join(t0, a, node(0));
  const auto sent = table.join(t0, b, node(1));
  auto back = node(1);
  back.fresh = true;
  const auto again = join_from(table, b, c, back);
  CHECK(said<link::Drain>(again, a).empty());
  CHECK(said<link::Sealed>(again, c) == said<link::Sealed>(sent, b));
}

TEST_CASE("an agent that was in a later round does not receive a seat of an older one") {
  Table table;
  table.join(t0, a, node(0));
  table.join(t0, b, node(1));
  auto back = node(1);
  back.after = RoundNumber{2};
  back.idle = true;
  const auto again = join_from(table, b, c, back);
  CHECK(said<link::Sealed>(again, c).empty());
  CHECK(said<link::Drain>(again, a)[0].reason == "node 1 on host1 rejoined without its workers");
}

TEST_CASE("each of three nodes receives the same seat again") {
  const JobTerms terms{.id = "j", .nodes_min = 3, .nodes_max = 3};
  const auto of_three = [&](int rank) {
    auto join = node(rank, rank + 1);
    join.nodes_min = join.nodes_max = 3;
    join.addresses = {"192.0.2." + std::to_string(rank)};
    join.fresh = true;
    return join;
  };
  // The master is the node in the coordinator's process, or else the first one.
  for (const int local : {-1, 1}) {
    Table table{terms};
    coordinator::Actions sealed;
    const LinkId links[] = {a, b, c};
    for (int rank = 0; rank < 3; ++rank) {
      sealed = table.join(t0, links[rank], of_three(rank), rank == local);
    }
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == local) continue;
      const LinkId link{10 + static_cast<std::uint64_t>(rank)};
      const auto again = join_from(table, links[rank], link, of_three(rank));
      CHECK(said<link::Sealed>(again, link) == said<link::Sealed>(sealed, links[rank]));
    }
  }
}

TEST_CASE("the master receives its seat again with an address of another node") {
  Table table;
  const auto sent = table.join(t0, a, node(0));
  const auto sealed = table.join(t0, b, node(1));
  auto back = node(0);
  back.fresh = true;
  const auto again = join_from(table, a, c, back);
  CHECK(said<link::Sealed>(again, c) == said<link::Sealed>(sealed, a));
}

TEST_CASE("an agent that may have given its seat up does not receive it again") {
  Table table;
  table.join(t0, a, node(0));
  table.join(t0, b, node(1));
  const auto again = join_from(table, b, c, node(1));
  CHECK(said<link::Sealed>(again, c).empty());
  CHECK(said<link::Drain>(again, a)[0].reason == "node 1 on host1 rejoined without its workers");
  const auto next = table.drained(t0 + 1s, 1, {a});
  CHECK(said<link::Sealed>(next, c)[0].round == RoundNumber{2});
  CHECK(said<link::Sealed>(next, c)[0].restart_count == 0);
}

TEST_CASE("a resumed agent gets an answer, so it knows that its lease continues") {
  Three three;
  three.close(t0 + 1s, b);
  auto again = any_of_three("beta");
  again.after = RoundNumber{1};
  again.sent = 77s;
  const auto back = three.join(t0 + 2s, LinkId{9}, again);
  REQUIRE(said<link::Heartbeat>(back, LinkId{9}).size() == 1);
  CHECK(said<link::Heartbeat>(back, LinkId{9})[0].sent == 77s);
}

TEST_CASE(
    "a coordinator that was suspended for longer than the lease keeps nodes that sent messages") {
  Three three;
  const TimePoint awake = t0 + 60s;
  CHECK(said<link::Drain>(three.advance(awake), a).empty());
  // Now it reads what arrived while it slept: b has sent a message, c has not.
  three.hear(awake + 1ms, b, link::Heartbeat{});
  const auto lost = three.awake(awake + 3s);
  CHECK(said<link::Drain>(lost, b)[0].reason == "node 2 on gamma is lost");
}

TEST_CASE("a jump of a node's wall clock has no effect") {
  Three three;
  link::Failed failed{.round = RoundNumber{1}, .failure = {.rank = Rank{1}, .host = "beta"}};
  failed.failure.time = WallTime{std::chrono::microseconds{-1}};
  failed.noticed = 1s;
  three.hear(t0 + 1s, b, failed);
  failed.failure.rank = Rank{2};
  failed.failure.time = WallTime{std::chrono::microseconds{-1'000'000}};
  failed.noticed = 2s;
  three.hear(t0 + 2s, c, failed);
  CHECK(said<link::Finish>(three.drained(t0 + 2s, 1, {a, b, c}), a)[0].root->rank == Rank{1});
}

TEST_CASE("a round is interrupted once for all nodes that join within the settle window") {
  Table table{0, 1, 9};
  const auto come = [&table](TimePoint now, std::uint64_t link) {
    auto join = any_of_three("h" + std::to_string(link));
    join.nodes_max = 9;
    return table.join(now, LinkId{link}, join, link == 1);
  };
  come(t0, 1);
  table.advance(t0 + 30s);
  CHECK(said<link::Drain>(come(t0 + 40s, 2), a).empty());
  CHECK(said<link::Drain>(come(t0 + 50s, 3), a).empty());
  table.hear(t0 + 60s, LinkId{2}, link::Heartbeat{});
  CHECK(said<link::Drain>(come(t0 + 60s, 4), a).empty());
  for (int s = 61; s < 70; ++s) {
    for (const std::uint64_t link : {2, 3, 4}) {
      table.hear(t0 + s * 1s, LinkId{link}, link::Heartbeat{});
    }
  }
  const auto polite = said<link::Drain>(table.advance(t0 + 70s), a);
  REQUIRE(polite.size() == 1);
  CHECK(polite[0].reason == "3 more nodes joined");
  // A node that joins while the round drains is included.
  CHECK(said<link::Drain>(come(t0 + 71s, 5), a).empty());
  const auto next = table.drained(t0 + 71s, 1, {a});
  CHECK(said<link::Sealed>(next, LinkId{5})[0].group_world_size == 5);
  CHECK(said<link::Sealed>(next, a)[0].restart_count == 0);
}

TEST_CASE("a worker that fails because of a planned interruption does not turn it into a failure") {
  Three three;
  three.hear(t0 + 1s, b, link::Leave{.signal = 15, .reason = "asked to stop by SIGTERM"});
  link::Failed failed{.round = RoundNumber{1}, .failure = {.rank = Rank{2}, .host = "gamma"}};
  failed.noticed = 2s;
  three.hear(t0 + 2s, c, failed);
  const auto next = three.drained(t0 + 2s, 1, {b, c, a});
  REQUIRE(said<link::Sealed>(next, a).size() == 1);
  CHECK(said<link::Sealed>(next, a)[0].group_world_size == 2);
}

TEST_CASE("a coordinator that was suspended until a lease expires reads its messages first") {
  Three three;
  // It wakes just when the leases of b and c expire; both have sent messages meanwhile.
  CHECK(said<link::Drain>(three.advance(t0 + 3s), a).empty());
  three.hear(t0 + 3s, b, link::Heartbeat{});
  three.hear(t0 + 3s, c, link::Heartbeat{});
  CHECK(said<link::Drain>(three.awake(t0 + 5s), a).empty());
}

TEST_CASE("a finished node that is lost together with another is released once") {
  Three three;
  three.hear(t0 + 1s, c, link::Succeeded{RoundNumber{1}});
  three.close(t0 + 1s, c, true);
  const auto lost = three.awake(t0 + 5s);
  CHECK(said<link::Drain>(lost, a).size() == 1);
  CHECK(three.job.round().find(b) == nullptr);
  CHECK(three.job.round().find(c) == nullptr);
}

TEST_CASE("nodes that fall silent together are lost together, and no round starts between") {
  Table table{1};
  const auto node_on = [](std::string host) {
    return link::Join{
        .job = "j", .host = std::move(host), .pid = 7, .nodes_min = 2, .nodes_max = 2};
  };
  table.join(t0, a, node_on("alpha"), true);
  table.join(t0, b, node_on("beta"));
  table.join(t0, c, node_on("gamma"));  // A spare.
  table.hear(t0, a, link::Failed{.round = RoundNumber{1}, .failure = {.status = {false, 3}}});
  table.hear(t0, a, link::Drained{RoundNumber{1}});
  const auto lost = table.awake(t0 + 3s);
  // A round sealed between the two would have been interrupted immediately.
  CHECK(said<link::Sealed>(lost, a).empty());
  CHECK(table.job.round().phase() == Round::Phase::gathering);
  CHECK(table.job.round().size() == 1);
  CHECK(said<link::Sealed>(table.join(t0 + 4s, LinkId{9}, node_on("delta")), a).size() == 1);
}

TEST_CASE(
    "a node that leaves because it was asked to stop is not reported as a waiting node that left") {
  Table table;
  table.seal();
  table.hear(t0 + 1s, b, link::Leave{.signal = 15, .reason = "asked to stop by SIGTERM"});
  table.drained(t0 + 2s, 1, {b});
  for (const auto& action : table.close(t0 + 2s, b)) {
    CHECK_FALSE(std::holds_alternative<coordinator::Note>(action));
    CHECK_FALSE(std::holds_alternative<coordinator::NodeChange>(action));
  }
}

TEST_CASE("a node that falls silent after it was asked to stop is not a failure") {
  Table table;
  table.seal();
  table.hear(t0 + 1s, b, link::Leave{.signal = 15, .reason = "asked to stop by SIGTERM"});
  table.drained(t0 + 2s, 1, {a});
  const auto ends = table.awake(t0 + 4s);
  REQUIRE(said<link::Finish>(ends, a).size() == 1);
  CHECK(said<link::Finish>(ends, a)[0].exit_code == 143);
  CHECK_FALSE(said<link::Finish>(ends, a)[0].root);
}

TEST_CASE("a node that was silent before another was asked to stop is still a failure") {
  Table table;
  table.seal();
  table.hear(t0 + 1s, a, link::Leave{.signal = 15, .reason = "asked to stop by SIGTERM"});
  table.drained(t0 + 2s, 1, {a});
  const auto ends = table.awake(t0 + 3s);
  REQUIRE(said<link::Finish>(ends, a).size() == 1);
  CHECK(said<link::Finish>(ends, a)[0].exit_code == 1);
}

}  // namespace job_loss_test
