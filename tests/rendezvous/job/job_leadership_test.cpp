// SPDX-License-Identifier: BSD-3-Clause
// A job that another node continues after its coordinator is lost.

#include <doctest/doctest.h>

#include <csignal>

#include "rendezvous/job/bounds.h"
#include "tests/rendezvous/job/job_table.h"

namespace job_leadership_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

link::Join elastic(int rank) {
  auto join = node(rank, 1);
  join.node_rank.reset();
  join.nodes_min = 1;
  join.nodes_max = 3;
  join.can_lead = true;
  return join;
}

// Three nodes: the coordinator's node, on link a, and two more.
struct Three : Table {
  Three() : Table(JobTerms{.id = "j", .nodes_min = 1, .nodes_max = 3}) {
    job = Job{job.terms(), {.lease = 3s, .status_interval = 5s, .last_call = 30s, .standby = true}};
    join(t0, a, elastic(0), true);
    join(t0, b, elastic(1));
    sealed = join(t0, c, elastic(2));
  }
  coordinator::Actions stands(TimePoint now, LinkId link = b) {
    return hear(now, link, link::Stands{RoundNumber{1}, 4711});
  }
  coordinator::Actions heartbeat(TimePoint now, LinkId link, TimePoint moment) {
    const auto said = std::chrono::floor<link::AgentTime>(moment.time_since_epoch());
    return hear(now, link, link::Heartbeat{.sent = link::AgentTime{1}, .moment = said});
  }
  coordinator::Actions sealed;
};

bool shows_record(const coordinator::Actions& actions, LinkId link) {
  return std::ranges::any_of(actions, [&](const auto& each) {
    const auto* show = std::get_if<coordinator::ShowRecord>(&each);
    return show != nullptr && show->link == link;
  });
}

// The longest vote timeout.
constexpr Duration timeout = bounds::vote_timeout(3s) - 250ms;

}  // namespace

TEST_CASE("a job that ends with its host says so, and warns where a standby is possible") {
  const auto texts = [](int nodes_min, int nodes_max, bool standby) {
    Table table(JobTerms{.id = "j", .nodes_min = nodes_min, .nodes_max = nodes_max});
    table.job = Job{table.job.terms(), {.lease = 3s, .last_call = 30s, .standby = standby}};
    for (int rank = 0; rank < nodes_max; ++rank) {
      auto join = node(rank);
      join.nodes_min = nodes_min;
      join.nodes_max = nodes_max;
      table.join(t0, LinkId{static_cast<std::uint64_t>(rank) + 1}, join, rank == 0);
    }
    return std::pair(table.job.cover_text(), table.job.exposure_text());
  };
  const std::string lost = ": the job ends if node 0 on host0 is lost";
  const std::string normal;  // no warning
  // The command line turns the standby of such a job off, whatever --standby says.
  CHECK(texts(2, 2, false) == std::pair("no standby (fixed-size jobs have none)" + lost, normal));
  CHECK(texts(2, 2, true) == std::pair("no standby (fixed-size jobs have none)" + lost, normal));
  CHECK(texts(1, 3, false) == std::pair("no standby (--standby=none)" + lost, normal));
  CHECK(texts(1, 2, true) == std::pair("no standby (needs three nodes)" + lost, normal));
  const std::string helps =
      "; run this version of cpprun on all nodes, or host the job with two cpprunds";
  CHECK(texts(1, 3, true) == std::pair("no standby" + lost, "no standby" + lost + helps));
  CHECK(texts(1, 1, true) == std::pair(normal, normal));
  CHECK(Three().job.exposure_text() == "");  // a standby is about to be appointed
}

TEST_CASE("the second node receives the record, and all nodes learn when it is the standby") {
  Three table;
  CHECK(shows_record(table.sealed, b));
  CHECK_FALSE(table.job.leadership().standby_place());
  CHECK_FALSE(table.job.leadership().leads_until());
  CHECK_FALSE(table.job.leadership().standby_node(table.job.round()));
  CHECK(table.job.cover_text() == "no standby yet: the job ends if node 0 on host0 is lost");
  const auto sent = table.stands(t0 + 1s);
  for (const LinkId each : {a, b, c}) {
    REQUIRE(said<link::Standby>(sent, each).size() == 1);
    CHECK(said<link::Standby>(sent, each)[0] == link::Standby{RoundNumber{1}, "10.0.0.2", 4711});
  }
  CHECK(table.job.leadership().leads_until() == t0 + 1s + timeout);
  CHECK(table.job.leadership().standby_node(table.job.round()) == GroupRank{1});
  CHECK(table.job.cover_text() == "if node 0 on host0 is lost, node 1 on host1 resumes the job");
  // A node that joins later is a spare and receives the same information.
  auto late = table.join(t0 + 1s, LinkId{4}, elastic(3));
  CHECK(said<link::Standby>(late, LinkId{4}).size() == 1);
  // Repeated on a new link, and by a node that was not asked.
  CHECK(table.stands(t0 + 1s).empty());
  CHECK(table.stands(t0 + 1s, c).empty());
}

TEST_CASE("a future standby that reconnects receives the record again") {
  const LinkId again{9};
  const auto back = [again](Three& table, bool is_fresh) {
    auto join = elastic(1);
    join.fresh = is_fresh;
    if (!is_fresh) join.after = RoundNumber{1};
    join.restarts = table.job.terms().restarts;
    coordinator::Actions actions;
    table.job.join(t0 + 1s, {again, "10.0.0.2", false}, join, actions);
    return actions;
  };
  SUBCASE("it has received its seat, and perhaps a part of the record") {
    Three table;
    CHECK(shows_record(back(table, false), again));
  }
  SUBCASE("it receives its seat before the record") {
    Three table;
    const auto sent = back(table, true);
    const auto is_record = [](const auto& each) {
      return std::holds_alternative<coordinator::ShowRecord>(each);
    };
    const auto record = std::ranges::find_if(sent, is_record);
    REQUIRE(record != sent.end());
    CHECK(said<link::Sealed>(coordinator::Actions(sent.begin(), record), again).size() == 1);
  }
  SUBCASE("it is a standby already") {
    Three table;
    table.stands(t0);
    CHECK_FALSE(shows_record(back(table, false), again));
  }
}

TEST_CASE("the leader's lease has an end once enough nodes can vote, even after a reconnect") {
  Three table;
  table.close(t0, c);
  table.stands(t0 + 1s);
  CHECK_FALSE(table.job.leadership().leads_until());
  auto back = elastic(2);
  back.after = RoundNumber{1};
  back.restarts = table.job.terms().restarts;
  coordinator::Actions sent;
  table.job.join(t0 + 2s, {LinkId{9}, "10.0.0.3", false}, back, sent);
  CHECK(said<link::Standby>(sent, LinkId{9}).size() == 1);
  CHECK(table.job.leadership().leads_until() == t0 + 2s + timeout);
}

TEST_CASE("no standby is appointed where it could not help, or before a node says that it can") {
  const auto shows = [](JobTerms terms, int nodes, bool can, bool wanted) {
    Table table{terms};
    table.job = Job{terms, {.lease = 3s, .last_call = 30s, .standby = wanted}};
    coordinator::Actions last;
    for (int rank = 0; rank < nodes; ++rank) {
      auto join = elastic(rank);
      join.nodes_min = terms.nodes_min;
      join.nodes_max = terms.nodes_max;
      join.can_lead = can;
      last = table.join(t0, LinkId{static_cast<std::uint64_t>(rank + 1)}, join, rank == 0);
    }
    return shows_record(last, b);
  };
  const JobTerms three{.id = "j", .nodes_min = 1, .nodes_max = 3};
  CHECK(shows(three, 3, true, true));
  CHECK_FALSE(shows(three, 3, true, false));
  CHECK_FALSE(shows(three, 3, false, true));
  CHECK_FALSE(shows({.id = "j", .nodes_min = 1, .nodes_max = 2}, 2, true, true));
  CHECK_FALSE(shows({.id = "j", .nodes_min = 3, .nodes_max = 3}, 3, true, true));
}

TEST_CASE("answers carry a time while there is a standby, and each heartbeat extends the lease") {
  Three table;
  const auto before = table.heartbeat(t0 + 1s, c, {});
  CHECK(said<link::Heartbeat>(before, c)[0].moment == link::AgentTime{});
  table.stands(t0 + 1s);
  const auto answer = table.heartbeat(t0 + 2s, c, {});
  CHECK(said<link::Heartbeat>(answer, c)[0].moment == link::AgentTime{2s});
  table.heartbeat(t0 + 3s, c, t0 + 2s);
  table.awake(t0 + 3s + 500ms);
  CHECK(table.job.leadership().leads_until() == t0 + 2s + timeout);
  // A message from the future does not count.
  table.heartbeat(t0 + 3s + 500ms, c, t0 + 1h);
  table.awake(t0 + 4s);
  CHECK(table.job.leadership().leads_until() <= t0 + 4s + timeout);
}

TEST_CASE("a coordinator without followers steps down before its standby may lead") {
  Three table;
  table.stands(t0);
  // received, but it receives nothing from this coordinator
  table.hear(t0 + 3s, b, link::Heartbeat{});
  table.hear(t0 + 3s, c, link::Heartbeat{});
  const auto actions = table.awake(t0 + timeout);
  CHECK(table.job.is_deposed());
  REQUIRE(said<link::Refused>(actions, a).size() == 1);
  CHECK(said<link::Refused>(actions, a)[0].reason ==
        "too few of the 3 nodes of round 1 respond; the standby at 10.0.0.2 may be the leader by "
        "now");
  CHECK(std::ranges::count_if(actions, [](const auto& each) {
          return std::holds_alternative<coordinator::HangUp>(each);
        }) == 2);
  CHECK_FALSE(table.job.next_deadline());
  CHECK_FALSE(table.job.over());
  CHECK_FALSE(table.job.admit("10.0.0.2"));
  CHECK(table.hear(t0 + 5s, b, link::Succeeded{RoundNumber{1}}).empty());
  CHECK_FALSE(table.command(t0 + 5s, {.kind = OperatorCommand::Kind::stop}).outcome.is_done());
}

TEST_CASE("a coordinator that stepped down leads again once no standby can get a majority") {
  Three table;
  table.stands(t0);
  for (const LinkId each : {b, c}) table.hear(t0 + 2s, each, link::Heartbeat{});
  table.awake(t0 + timeout);
  REQUIRE(table.job.is_deposed());
  table.close(t0 + 4s, b);
  table.close(t0 + 4s, c);
  table.close(t0 + 4s, a);
  const Caller again{LinkId{9}, "10.0.0.3"};
  // On its old link it says nothing new; with a vote, or with its seat, it may still vote.
  auto join = elastic(2);
  CHECK_FALSE(table.job.takes_back_vote({c, "10.0.0.3"}, join));
  join.vote = RoundNumber{1};
  CHECK_FALSE(table.job.takes_back_vote(again, join));
  join.vote = {};
  join.after = RoundNumber{1};
  CHECK_FALSE(table.job.takes_back_vote(again, join));
  // A node that the round does not know has no vote to take back.
  CHECK_FALSE(table.job.takes_back_vote(again, elastic(7)));
  join.after = {};
  REQUIRE(table.job.takes_back_vote(again, join));
  coordinator::Actions actions;
  table.job.lead_again(t0 + 5s, actions);
  table.job.join(t0 + 5s, again, join, actions);
  CHECK_FALSE(table.job.is_deposed());
  CHECK_FALSE(table.job.check());
  CHECK(table.job.round().phase() == Round::Phase::draining);
  // Its own node comes back, and the lease of the other node expires.
  table.job.join(t0 + 5s, {LinkId{10}, "10.0.0.1", /*local=*/true}, elastic(0), actions);
  CHECK(table.job.round().phase() == Round::Phase::draining);
  table.hear(t0 + 7s, LinkId{9}, link::Heartbeat{});
  table.awake(t0 + 8s);
  CHECK(table.job.round().phase() == Round::Phase::sealed);
  CHECK(table.job.round().number() == RoundNumber{2});
  CHECK(table.job.rounds().policy().restarts_used() == 0);
}

TEST_CASE("a master that is asked to end transfers leadership when its round has drained") {
  Three table;
  table.stands(t0);
  const auto breaks =
      table.hear(t0 + 1s, a, link::Leave{.signal = SIGTERM, .reason = "asked to stop by SIGTERM"});
  CHECK(said<link::Drain>(breaks, c).size() == 1);
  table.hear(t0 + 1s, a, link::Drained{RoundNumber{1}});
  table.hear(t0 + 1s, b, link::Drained{.round = RoundNumber{1}, .asked = true});
  const auto offers = table.hear(t0 + 1s, c, link::Drained{.round = RoundNumber{1}, .asked = true});
  const link::Led led{"10.0.0.2", 4711};
  CHECK(said<link::Led>(offers, b) == std::vector{led});
  CHECK(said<link::Led>(offers, c).empty());
  CHECK_FALSE(table.command(t0 + 1s, {.kind = OperatorCommand::Kind::stop}).outcome.is_done());
  SUBCASE("the standby leads and reports it: the other nodes are redirected") {
    coordinator::Actions actions;
    REQUIRE(table.job.step_aside(t0 + 1s, led, actions));
    CHECK(said<link::Led>(actions, a) == std::vector{led});
    CHECK(said<link::Led>(actions, c) == std::vector{led});
    CHECK(table.job.transferred_to() == led);
    CHECK_FALSE(table.job.check());
  }
  SUBCASE("it does not answer: its role is unknown, and nothing is decided here") {
    const auto late = table.awake(t0 + 1s + bounds::hand_over_timeout);
    CHECK(said<link::Led>(late, c) == std::vector{led});
    CHECK(table.job.is_deposed());
  }
  SUBCASE("it has an older version and continues as before: the job ends") {
    CHECK(said<link::Finish>(table.heartbeat(t0 + 2s, b, t0 + 1s), c).empty());
    const auto ends = table.heartbeat(t0 + 2s, b, t0 + 1s + 1ms);
    REQUIRE(said<link::Finish>(ends, c).size() == 1);
    CHECK(said<link::Finish>(ends, c)[0].exit_code == 128 + SIGTERM);
  }
}

TEST_CASE("an interrupted master ends its job, whether or not another node could lead") {
  Three table;
  table.stands(t0);
  table.hear(t0 + 1s, a, link::Leave{.signal = SIGINT, .reason = "asked to stop by SIGINT"});
  for (const LinkId each : {a, b}) {
    table.hear(t0 + 1s, each, link::Drained{.round = RoundNumber{1}, .asked = true});
  }
  const auto ends = table.hear(t0 + 1s, c, link::Drained{.round = RoundNumber{1}, .asked = true});
  REQUIRE(said<link::Finish>(ends, b).size() == 1);
  CHECK(said<link::Finish>(ends, b)[0].exit_code == 128 + SIGINT);
}

TEST_CASE("after a broken round the job waits until the standby can no longer lead that round") {
  Three table;
  table.stands(t0);
  table.hear(
      t0 + 1s, c,
      link::Failed{.round = RoundNumber{1}, .failure = {.rank = Rank{2}, .status = {false, 7}}});
  table.hear(t0 + 1s, a, link::Drained{RoundNumber{1}});
  table.hear(t0 + 1s, b, link::Drained{.round = RoundNumber{1}, .asked = false});
  // All nodes have drained, and no voter knows that the round has ended.
  const auto waits = table.hear(t0 + 1s, c, link::Drained{.round = RoundNumber{1}, .asked = false});
  CHECK_FALSE(table.job.over());
  CHECK(said<link::Finish>(waits, c).empty());
  const auto ends = table.hear(t0 + 1s, c, link::Drained{.round = RoundNumber{1}, .asked = true});
  CHECK(said<link::Finish>(ends, c).size() == 1);
}

TEST_CASE("a node may vote until its round has drained, and is then asked to give up its vote") {
  Three table;
  table.stands(t0);
  const auto breaks = table.hear(
      t0 + 1s, c,
      link::Failed{.round = RoundNumber{1}, .failure = {.rank = Rank{2}, .status = {false, 7}}});
  REQUIRE(said<link::Drain>(breaks, b).size() == 1);
  CHECK(said<link::Drain>(breaks, b)[0].keeps_vote);
  CHECK_FALSE(said<link::Drain>(breaks, b)[0].ends_job);
  CHECK_FALSE(said<link::Drain>(breaks, b)[0].keeps_workers);
  // A successor counts that failure.
  CHECK(shows_record(breaks, b));
  table.hear(t0 + 1s, a, link::Drained{RoundNumber{1}});
  table.hear(t0 + 1s, b, link::Drained{RoundNumber{1}});
  const auto asks = table.hear(t0 + 1s, c, link::Drained{RoundNumber{1}});
  for (const LinkId each : {b, c}) {
    REQUIRE(said<link::Drain>(asks, each).size() == 1);
    CHECK_FALSE(said<link::Drain>(asks, each)[0].keeps_vote);
  }
  CHECK(table.job.leadership().leads_until());
  const auto ends = table.hear(t0 + 1s, b, link::Drained{.round = RoundNumber{1}, .asked = true});
  CHECK(said<link::Finish>(ends, c).size() == 1);
}

TEST_CASE(
    "with --on-failure=reconfigure a drain keeps workers, unless their node or the job ends") {
  Table table{
      JobTerms{.id = "j", .nodes_min = 1, .nodes_max = 3, .restarts = {.reconfigures = true}}};
  table.join(t0, a, elastic(0), true);
  table.join(t0, b, elastic(1));
  table.join(t0, c, elastic(2));
  const auto leaves = table.hear(t0 + 1s, c, link::Leave{.signal = 15, .reason = "SIGTERM"});
  REQUIRE(said<link::Drain>(leaves, b).size() == 1);
  CHECK(said<link::Drain>(leaves, b)[0].keeps_workers);
  REQUIRE(said<link::Drain>(leaves, c).size() == 1);
  CHECK_FALSE(said<link::Drain>(leaves, c)[0].keeps_workers);
  table.hear(t0 + 1s, c, link::Drained{RoundNumber{1}});
  table.hear(t0 + 1s, b, link::Drained{RoundNumber{1}});
  table.hear(t0 + 1s, a, link::Drained{RoundNumber{1}});
  const auto stops = table.hear(t0 + 2s, a, link::Leave{.signal = 15, .reason = "SIGTERM"});
  REQUIRE(said<link::Drain>(stops, b).size() == 1);
  CHECK_FALSE(said<link::Drain>(stops, b)[0].keeps_workers);
}

TEST_CASE("no node may vote in a round that ends the job, even if this is known only later") {
  Three table;
  table.stands(t0);
  SUBCASE("from the beginning") {
    const auto stops = table.command(t0 + 1s, {.kind = OperatorCommand::Kind::stop});
    REQUIRE(said<link::Drain>(stops.actions, c).size() == 1);
    CHECK_FALSE(said<link::Drain>(stops.actions, c)[0].keeps_vote);
    CHECK(said<link::Drain>(stops.actions, c)[0].ends_job);
  }
  SUBCASE("while it drains") {
    const auto restarts = table.command(t0 + 1s, {.kind = OperatorCommand::Kind::restart});
    CHECK(said<link::Drain>(restarts.actions, c)[0].keeps_vote);
    const auto stops = table.command(t0 + 2s, {.kind = OperatorCommand::Kind::stop});
    REQUIRE(said<link::Drain>(stops.actions, c).size() == 1);
    CHECK_FALSE(said<link::Drain>(stops.actions, c)[0].keeps_vote);
    CHECK(said<link::Drain>(stops.actions, c)[0].ends_job);
  }
}

namespace {

// Five nodes, with restarts; the node on link b is the standby.
struct Five : Table {
  static constexpr LinkId d{4};
  static constexpr LinkId e{5};
  Five() : Table(JobTerms{.id = "j", .nodes_min = 1, .nodes_max = 5, .restarts = {.max = 3}}) {
    job = Job{job.terms(), {.lease = 3s, .status_interval = 5s, .last_call = 30s, .standby = true}};
    int rank = 0;
    for (const LinkId each : {a, b, c, d, e}) {
      auto one = elastic(rank);
      one.nodes_max = 5;
      one.restarts = job.terms().restarts;
      join(t0, each, one, rank++ == 0);
    }
    hear(t0, b, link::Stands{RoundNumber{1}, 4711});
  }
  // All nodes but the standby.
  void heartbeat(TimePoint now, TimePoint moment) {
    const auto said = std::chrono::floor<link::AgentTime>(moment.time_since_epoch());
    for (const LinkId each : {c, d, e}) {
      hear(now, each, link::Heartbeat{.sent = link::AgentTime{1}, .moment = said});
    }
  }
};

}  // namespace

TEST_CASE("a standby that leaves the round is replaced while the round drains") {
  Five table;
  coordinator::Actions breaks;
  SUBCASE("it is asked to stop") {
    breaks = table.hear(t0 + 1s, b, link::Leave{.signal = SIGTERM, .reason = "asked to stop"});
  }
  SUBCASE("it is drained") {
    breaks =
        table.command(t0 + 1s, {.kind = OperatorCommand::Kind::drain, .whom = "host1"}).actions;
  }
  SUBCASE("it is silent and lost") {
    table.heartbeat(t0 + 2s, t0 + 1s);
    breaks = table.awake(t0 + 3s);
  }
  SUBCASE("it is lost while the round drains") {
    table.command(t0 + 1s, {.kind = OperatorCommand::Kind::restart});
    table.heartbeat(t0 + 2s, t0 + 1s);
    breaks = table.awake(t0 + 3s);
  }
  CHECK(shows_record(breaks, c));
  CHECK(table.job.leadership().standby() == c);
  CHECK_FALSE(table.job.leadership().standby_place());
  for (const auto& drain : said<link::Drain>(breaks, Five::d)) CHECK(drain.keeps_vote);
  // Of the four nodes that remain, the coordinator's node included.
  CHECK(table.job.record().votes_needed == 3);
  const auto sent = table.hear(t0 + 3s, c, link::Stands{RoundNumber{1}, 4712});
  const link::Standby place{RoundNumber{1}, "10.0.0.3", 4712};
  for (const LinkId each : {a, c, Five::d, Five::e}) {
    CHECK(said<link::Standby>(sent, each) == std::vector{place});
  }
  CHECK(table.job.leadership().leads_until());
  CHECK_FALSE(table.job.check());
}

TEST_CASE("a standby needs fewer votes when nodes that could vote for it have left the round") {
  Five table;
  SUBCASE("without a spare") {}
  SUBCASE("with spares, which have no vote") {
    for (const std::uint64_t each : {6U, 7U}) {
      auto spare = elastic(static_cast<int>(each));
      spare.nodes_max = 5;
      table.join(t0, LinkId{each}, spare);
    }
  }
  CHECK(table.job.record().votes_needed == 3);
  for (const LinkId each : {Five::d, Five::e}) {
    const auto leaves =
        table.hear(t0 + 1s, each, link::Leave{.signal = SIGTERM, .reason = "asked to stop"});
    CHECK(shows_record(leaves, b));
  }
  CHECK(table.job.record().votes_needed == 2);
  CHECK(table.job.leadership().standby() == b);
  // With the next node gone it would have no majority beside the coordinator's node.
  const auto last =
      table.hear(t0 + 1s, c, link::Leave{.signal = SIGTERM, .reason = "asked to stop"});
  CHECK_FALSE(shows_record(last, b));
}

TEST_CASE("a node that leaves, or is asked to, keeps no vote") {
  Three table;
  table.stands(t0);
  SUBCASE("it leaves and does not ask for another seat") {
    for (const LinkId each : {b, c}) {
      table.hear(t0 + 1s, each, link::Leave{.signal = SIGTERM, .reason = "asked to stop"});
      table.hear(t0 + 1s, each, link::Drained{RoundNumber{1}});
    }
    table.advance(t0 + 1s);
    CHECK_FALSE(table.job.leadership().leads_until());
    table.hear(t0 + 1s, a, link::Drained{RoundNumber{1}});
    CHECK(table.job.round().number() == RoundNumber{2});
  }
  SUBCASE("it is evicted while a round drains: it gives its vote up before it goes") {
    table.command(t0 + 1s, {.kind = OperatorCommand::Kind::restart});
    table.hear(t0 + 1s, c, link::Drained{RoundNumber{1}});
    const auto asked =
        table.command(t0 + 1s, {.kind = OperatorCommand::Kind::drain, .whom = "host2"});
    REQUIRE(asked.outcome.is_done());
    CHECK(said<link::Dismissed>(asked.actions, c).empty());
    REQUIRE(said<link::Drain>(asked.actions, c).size() == 1);
    CHECK_FALSE(said<link::Drain>(asked.actions, c)[0].keeps_vote);
    const auto goes = table.hear(t0 + 1s, c, link::Drained{.round = RoundNumber{1}, .asked = true});
    CHECK(said<link::Dismissed>(goes, c).size() == 1);
  }
  SUBCASE("the others give up their votes before, which is enough") {
    table.command(t0 + 1s, {.kind = OperatorCommand::Kind::restart});
    table.hear(t0 + 1s, c, link::Drained{RoundNumber{1}});
    table.command(t0 + 1s, {.kind = OperatorCommand::Kind::drain, .whom = "host2"});
    table.hear(t0 + 1s, a, link::Drained{RoundNumber{1}});
    const auto goes = table.hear(t0 + 1s, b, link::Drained{.round = RoundNumber{1}, .asked = true});
    CHECK(table.job.round().number() == RoundNumber{2});
    CHECK(said<link::Dismissed>(goes, c).size() == 1);
    CHECK(table.job.round().find(c) == nullptr);
  }
}

namespace {

// With restarts; all nodes but these have drained and given up their votes.
struct Restarting : Three {
  explicit Restarting(int restarts_max) {
    const JobTerms terms{
        .id = "j", .nodes_min = 1, .nodes_max = 3, .restarts = {.max = restarts_max}};
    job = Job{terms, {.lease = 3s, .status_interval = 5s, .last_call = 30s, .standby = true}};
    join(t0, a, elastic(0), true);
    join(t0, b, elastic(1));
    join(t0, c, elastic(2));
    stands(t0);
  }
  void fail(TimePoint now) {
    hear(now, c,
         link::Failed{.round = RoundNumber{1}, .failure = {.rank = Rank{2}, .status = {false, 7}}});
  }
  coordinator::Actions drain(TimePoint now, std::vector<LinkId> links) {
    coordinator::Actions last;
    for (const LinkId link : links) {
      last = hear(now, link, link::Drained{.round = RoundNumber{1}, .asked = true});
    }
    return last;
  }
};

const link::Leave sigterm{.signal = SIGTERM, .reason = "asked to stop by SIGTERM"};

}  // namespace

TEST_CASE("a master that is asked to end while its round drains transfers leadership as well") {
  SUBCASE("the standby receives the failure and counts the restart") {
    Restarting table(1);
    table.fail(t0 + 1s);
    table.hear(t0 + 1s, a, sigterm);
    const auto offers = table.drain(t0 + 1s, {a, b, c});
    CHECK(shows_record(offers, b));
    CHECK(said<link::Led>(offers, b).size() == 1);
    CHECK(table.job.record().round_end.failures.count() == 1);
    CHECK(table.job.rounds().policy().restarts_used() == 0);
  }
  SUBCASE("no restart is left: the job ends") {
    Restarting table(0);
    table.fail(t0 + 1s);
    table.hear(t0 + 1s, a, sigterm);
    const auto ends = table.drain(t0 + 1s, {a, b, c});
    REQUIRE(said<link::Finish>(ends, b).size() == 1);
    CHECK(said<link::Finish>(ends, b)[0].exit_code == 7);
  }
}

TEST_CASE("a master that is asked to end after it lost its standby appoints another one") {
  Restarting table(0);
  table.hear(t0 + 1s, a, sigterm);
  table.drain(t0 + 1s, {a, c});
  table.hear(t0 + 3s, c, link::Heartbeat{});
  const auto shows = table.awake(t0 + 4s);  // the lease of b has expired
  CHECK(shows_record(shows, c));
  CHECK(said<link::Led>(shows, c).empty());
  SUBCASE("it becomes the standby and then the leader") {
    const auto offers = table.stands(t0 + 4s, c);
    REQUIRE(said<link::Standby>(offers, c).size() == 1);
    CHECK(said<link::Standby>(offers, c)[0].address == "10.0.0.3");
    CHECK(said<link::Led>(offers, c) == std::vector{link::Led{"10.0.0.3", 4711}});
  }
  SUBCASE("it has an older version and cannot: the job ends") {
    table.hear(t0 + 6s, c, link::Heartbeat{});
    const auto ends = table.awake(t0 + 4s + bounds::hand_over_timeout);
    CHECK(said<link::Finish>(ends, c).size() == 1);
    CHECK_FALSE(table.job.check());
  }
}

TEST_CASE("a restarted master redirects new nodes to the leader, but not the nodes of a round") {
  Table table{JobTerms{.id = "j", .nodes_min = 1, .nodes_max = 3}};
  table.job = Job{table.job.terms(), {.lease = 3s, .last_call = 30s, .standby = true}};
  table.join(t0, a, elastic(0), true);
  coordinator::Actions actions;
  const link::Led led{"10.0.0.7", 4711};
  REQUIRE(table.job.step_aside(t0 + 1s, led, actions));
  CHECK(said<link::Led>(actions, a) == std::vector{led});
  CHECK(table.job.is_deposed());
  CHECK_FALSE(table.job.check());
  Three sealed;
  CHECK_FALSE(sealed.job.step_aside(t0 + 1s, led, actions));
  CHECK_FALSE(sealed.job.is_deposed());
}

TEST_CASE("a job that may already have a leader waits for its message before the first round") {
  Table table{JobTerms{.id = "j", .nodes_min = 1, .nodes_max = 3}};
  table.job = Job{table.job.terms(), {.lease = 3s, .last_call = 1s, .standby = true}};
  table.join(t0, a, elastic(0), true);
  table.join(t0, b, elastic(1));
  table.hear(t0 + 3s, b, link::Heartbeat{});
  CHECK(table.job.round().phase() == Round::Phase::gathering);
  table.advance(t0 + bounds::lead_search);
  CHECK(table.job.round().phase() == Round::Phase::sealed);
}

}  // namespace job_leadership_test
