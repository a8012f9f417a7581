// SPDX-License-Identifier: BSD-3-Clause
// Operator commands on a job: their effect, and when they are rejected.

#include <doctest/doctest.h>

#include <csignal>

#include "rendezvous/job/job.h"
#include "tests/rendezvous/job/job_table.h"

namespace job_orders_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

using Outcome = CommandResult::Kind;

const OperatorCommand stop{.kind = OperatorCommand::Kind::stop, .reason = "maintenance"};
const OperatorCommand restart{.kind = OperatorCommand::Kind::restart};
const OperatorCommand save{.kind = OperatorCommand::Kind::save, .signal = SIGUSR1};

OperatorCommand drain(std::string whom) {
  return {.kind = OperatorCommand::Kind::drain, .whom = std::move(whom), .reason = "it smells"};
}
OperatorCommand exclude(std::string host, Duration length = {}) {
  return {.kind = OperatorCommand::Kind::exclude, .whom = std::move(host), .length = length};
}
OperatorCommand include(std::string host) {
  return {.kind = OperatorCommand::Kind::include, .whom = std::move(host)};
}

// A node that asks for no rank, of a fixed-size job or of a job of 2 to 3 nodes.
link::Join any(std::string host, int nodes_max = 2) {
  return {.job = "j", .host = std::move(host), .pid = 7, .nodes_min = 2, .nodes_max = nodes_max};
}

// A fixed-size job of two nodes that run, and a spare.
struct WithSpare : Table {
  WithSpare() {
    join(t0, a, any("host-a"), true);
    join(t0, b, any("host-b"));
    join(t0, c, any("host-c"));
  }
};

bool refused(const Table::Asked& asked, Outcome kind, std::string_view words) {
  CAPTURE(asked.outcome.sentence);
  CHECK(asked.actions.empty());
  CHECK(asked.outcome.kind == kind);
  CHECK(asked.outcome.sentence.find(words) != std::string::npos);
  return true;
}

}  // namespace

// --- stop ----------------------------------------------------------------------------------------

TEST_CASE("stop ends the job on every node like SIGTERM, and the report says who asked and why") {
  Table table;
  table.seal();
  const auto asked = table.command(t0 + 1s, stop);
  CHECK(asked.outcome.is_done());
  CHECK(said<link::Drain>(asked.actions, b)[0].reason ==
        "uid 0 (root) stopped the job: maintenance");
  const auto last = table.drained(t0 + 2s, 1, {a, b});
  REQUIRE(said<link::Finish>(last, a).size() == 1);
  CHECK(said<link::Finish>(last, a)[0].exit_code == 128 + SIGTERM);
  CHECK(said<link::Finish>(last, a)[0].reason == "uid 0 (root) stopped the job: maintenance");
}

TEST_CASE("stop ends a job that still waits for nodes") {
  Table table;
  table.join(t0, a, node(0), true);
  const auto asked = table.command(t0 + 1s, stop);
  CHECK(asked.outcome.is_done());
  CHECK(said<link::Finish>(asked.actions, a)[0].exit_code == 143);
}

TEST_CASE("a failure before the stop remains the result of the job") {
  Table table{3};
  table.seal();
  table.hear(t0 + 1s, b,
             link::Failed{RoundNumber{1}, {.rank = Rank{2}, .status = {.value = 9}}, {}});
  CHECK(table.command(t0 + 2s, stop).outcome.is_done());
  const auto last = table.drained(t0 + 3s, 1, {a, b});
  CHECK(said<link::Finish>(last, a)[0].exit_code == 9);
  CHECK(said<link::Finish>(last, a)[0].reason ==
        "rank 2 on host1 failed; not restarted: uid 0 (root) stopped the job: maintenance");
}

TEST_CASE("stop takes precedence over a planned interruption of the round") {
  Table table;
  table.seal();
  table.command(t0 + 1s, restart);
  CHECK(table.command(t0 + 1s, stop).outcome.is_done());
  const auto last = table.drained(t0 + 2s, 1, {a, b});
  CHECK(said<link::Finish>(last, b)[0].exit_code == 143);
  CHECK(said<link::Finish>(last, b)[0].reason == "uid 0 (root) stopped the job: maintenance");
}

TEST_CASE("a command that is repeated, or comes after the end, is answered with a reason") {
  Table table;
  table.seal();
  table.command(t0 + 1s, stop);
  refused(table.command(t0 + 1s, stop), Outcome::not_now, "is already stopping");
  refused(table.command(t0 + 1s, restart), Outcome::not_now, "is already stopping");
  refused(table.command(t0 + 1s, save), Outcome::not_now, "no workers are running");
  refused(table.command(t0 + 1s, drain("1")), Outcome::not_now, "is already stopping");
  table.drained(t0 + 2s, 1, {a, b});
  for (const OperatorCommand& each :
       {stop, restart, save, drain("1"), exclude("host1"), include("host1")}) {
    refused(table.command(t0 + 3s, each), Outcome::not_now,
            "job \"j\" is over: uid 0 (root) stopped the job: maintenance");
  }
}

// --- restart -------------------------------------------------------------------------------------

TEST_CASE("restart starts the next round with all nodes and costs no restart") {
  Table table{0};
  table.seal();
  const auto asked = table.command(t0 + 1s, restart);
  CHECK(asked.outcome.is_done());
  CHECK(said<link::Drain>(asked.actions, a)[0].reason == "uid 0 (root) restarted the job");
  const auto next = table.drained(t0 + 2s, 1, {a, b});
  REQUIRE(said<link::Sealed>(next, b).size() == 1);
  CHECK(said<link::Sealed>(next, b)[0].round == RoundNumber{2});
  CHECK(said<link::Sealed>(next, b)[0].restart_count == 0);
}

TEST_CASE("workers that fail because the round is restarted are not counted as failures") {
  Table table{0};
  table.seal();
  table.command(t0 + 1s, restart);
  table.hear(t0 + 2s, b,
             link::Failed{RoundNumber{1}, {.rank = Rank{2}, .status = {.value = 1}}, {}});
  CHECK(said<link::Sealed>(table.drained(t0 + 3s, 1, {a, b}), a).size() == 1);
}

TEST_CASE("restart is rejected while no round runs") {
  Table table;
  table.join(t0, a, node(0), true);
  refused(table.command(t0, restart), Outcome::not_now, "1 of 2 nodes have joined");
}

// --- save ----------------------------------------------------------------------------------------

TEST_CASE("save gives each node the same moment by its own clock") {
  Table table;
  table.seal();
  // b's clock is an hour ahead.
  table.hear(t0 + 1s, b, link::Heartbeat{.sent = 1h + 1s, .round_trip = {}});
  const auto asked = table.command(t0 + 2s, save);
  CHECK(asked.outcome.sentence ==
        "sending SIGUSR1 to the 4 workers of round 1 in 1 s; workers without a handler for it are "
        "skipped");
  const auto here = said<link::Save>(asked.actions, a);
  const auto there = said<link::Save>(asked.actions, b);
  REQUIRE(here.size() == 1);
  REQUIRE(there.size() == 1);
  CHECK(here[0] == link::Save{RoundNumber{1}, SIGUSR1, 3s});
  CHECK(there[0] == link::Save{RoundNumber{1}, SIGUSR1, 1h + 3s});
}

TEST_CASE("save asks only ranks that still run, once at a time, and needs a link to each of them") {
  Table table;
  table.seal();
  table.hear(t0 + 1s, b, link::Succeeded{RoundNumber{1}});
  const auto asked = table.command(t0 + 1s, save);
  CHECK(said<link::Save>(asked.actions, b).empty());
  CHECK(said<link::Save>(asked.actions, a).size() == 1);
  refused(table.command(t0 + 1500ms, save), Outcome::not_now, "retry in 1.5 s");
  CHECK(table.command(t0 + 3s, save).outcome.is_done());
  table.close(t0 + 2s, b, true);
  refused(table.command(t0 + 5s, save), Outcome::not_now, "lost contact with node 1 on host1");
}

TEST_CASE(
    "a preemption notice of one node makes all ranks save, and is answered like a heartbeat") {
  Table table;
  table.seal();
  const auto actions = table.hear(
      t0 + 1s, b, link::Heartbeat{.sent = 1h, .round_trip = {}, .notice = "file /run/preempt"});
  CHECK(said<link::Save>(actions, a).size() == 1);
  CHECK(said<link::Save>(actions, b).size() == 1);
  CHECK(said<link::Save>(actions, b)[0].signal == SIGUSR1);
  CHECK(said<link::Heartbeat>(actions, b).size() == 1);
  const auto own = table.hear(t0 + 5s, a, link::Heartbeat{.notice = "Slurm's time limit in 120 s"});
  CHECK(said<link::Save>(own, b).size() == 1);
  CHECK(said<link::Heartbeat>(own, a).empty());
}

TEST_CASE("save rejects a signal that ends or stops workers") {
  Table table;
  table.seal();
  for (const int signal : {SIGKILL, SIGSTOP, SIGTERM, SIGSEGV, SIGTSTP, SIGHUP}) {
    refused(table.command(t0, {.kind = OperatorCommand::Kind::save, .signal = signal}),
            Outcome::malformed, "would terminate or suspend the workers");
  }
}

// --- drain ---------------------------------------------------------------------------------------

TEST_CASE("a drained node leaves and a spare takes over") {
  WithSpare table;
  const auto asked = table.command(t0 + 1s, drain("host-b"));
  CHECK(asked.outcome.sentence == "node 1 on host-b leaves job \"j\"");
  CHECK(said<link::Drain>(asked.actions, a)[0].reason ==
        "uid 0 (root) drained node 1 on host-b: it smells");
  const auto left = table.hear(t0 + 2s, b, link::Drained{RoundNumber{1}});
  REQUIRE(said<link::Dismissed>(left, b).size() == 1);
  CHECK(said<link::Dismissed>(left, b)[0].reason ==
        "uid 0 (root) drained node 1 on host-b: it smells");
  const auto next = table.hear(t0 + 2s, a, link::Drained{RoundNumber{1}});
  CHECK(said<link::Sealed>(next, c).size() == 1);
  CHECK(said<link::Sealed>(next, c)[0].restart_count == 0);
  CHECK(table.job.round().find(b) == nullptr);
}

TEST_CASE("elastic: the others continue while enough nodes remain") {
  Table table{0, 2, 3};
  for (const auto& [link, host] : {std::pair{a, "host-a"}, {b, "host-b"}, {c, "host-c"}}) {
    table.join(t0, link, any(host, 3), link == a);
  }
  CHECK(table.command(t0 + 1s, drain("2")).outcome.is_done());
  const auto next = table.drained(t0 + 2s, 1, {c, b, a});
  CHECK(said<link::Sealed>(next, a)[0].group_world_size == 2);
  refused(table.command(t0 + 3s, drain("1")), Outcome::not_now,
          "only 1 node would be left, but the job needs at least 2");
}

TEST_CASE("a node that the job cannot do without is not drained") {
  Table table;
  table.seal();
  refused(table.command(t0, drain("1")), Outcome::not_now, "start another node first");
  refused(table.command(t0, drain("0")), Outcome::not_now, "hosts the coordinator");
  refused(table.command(t0, drain("2")), Outcome::unknown, "its nodes are node 0 on host0");
  refused(table.command(t0, drain("nowhere")), Outcome::unknown, "\"nowhere\"");
  WithSpare finished;
  finished.hear(t0 + 1s, a, link::Succeeded{RoundNumber{1}});
  refused(finished.command(t0 + 1s, drain("1")), Outcome::not_now,
          "have finished and would have to repeat their work");
}

TEST_CASE("a drained spare leaves at once without effect on the job") {
  WithSpare table;
  const auto asked = table.command(t0 + 1s, drain("10.0.0.3"));
  CHECK(said<link::Dismissed>(asked.actions, c).size() == 1);
  CHECK(said<link::Drain>(asked.actions, a).empty());
  CHECK(table.job.round().size() == 2);
}

TEST_CASE("a node that is drained twice leaves once") {
  WithSpare table;
  table.command(t0 + 1s, drain("1"));
  refused(table.command(t0 + 1s, drain("1")), Outcome::not_now, "is already leaving");
}

TEST_CASE("a drained node that falls silent before it has left is not a failure") {
  WithSpare table;
  table.command(t0 + 1s, drain("1"));
  table.close(t0 + 1s, b, true);
  table.hear(t0 + 1s, a, link::Drained{RoundNumber{1}});
  for (int s = 2; s < 4; ++s) table.hear(t0 + s * 1s, c, link::Heartbeat{});
  const auto next = table.awake(t0 + 4s);
  CHECK(said<link::Sealed>(next, c).size() == 1);
}

TEST_CASE("an agent that missed its eviction receives it again, and a new cpprun there may join") {
  WithSpare table;
  table.command(t0 + 1s, drain("1"));
  table.hear(t0 + 2s, b, link::Drained{RoundNumber{1}});
  link::Join again = any("host-b");
  again.after = RoundNumber{1};
  again.idle = true;
  const LinkId newer{4};
  const auto sent = table.join(t0 + 3s, newer, again);
  CHECK(said<link::Dismissed>(sent, newer).size() == 1);
  CHECK(table.job.round().find(newer) == nullptr);
  link::Join other = any("host-b");
  other.pid = 8;
  table.join(t0 + 3s, LinkId{5}, other);
  CHECK(table.job.round().find(LinkId{5}) != nullptr);
}

// --- hosts ---------------------------------------------------------------------------------------

TEST_CASE("an excluded host leaves and gets no seat until its exclusion ends") {
  WithSpare table;
  const auto asked = table.command(t0 + 1s, exclude("host-b", 60s));
  CHECK(asked.outcome.sentence ==
        "host-b is excluded from job \"j\" for 60 s; 1 node on this host leaves");
  table.drained(t0 + 2s, 1, {b, a});
  link::Join other = any("host-b");
  other.pid = 8;
  const auto sent = table.join(t0 + 31s, LinkId{4}, other);
  REQUIRE(said<link::Refused>(sent, LinkId{4}).size() == 1);
  CHECK(said<link::Refused>(sent, LinkId{4})[0].reason ==
        "host-b is excluded for 30 s more: uid 0 (root) excluded host-b");
  table.join(t0 + 61s, LinkId{5}, other);
  CHECK(table.job.round().find(LinkId{5}) != nullptr);
}

TEST_CASE("a host can be excluded by its address and included again") {
  Table table;
  table.join(t0, a, node(0), true);
  CHECK(table.command(t0, exclude("10.0.0.2")).outcome.sentence ==
        "10.0.0.2 is excluded from job \"j\" until the job is over; no node is on this host");
  CHECK(said<link::Refused>(table.join(t0 + 24h, b, node(1)), b).size() == 1);
  CHECK(table.command(t0 + 25h, include("10.0.0.2")).outcome.is_done());
  refused(table.command(t0 + 25h, include("10.0.0.2")), Outcome::unknown, "no host is");
  CHECK(said<link::Sealed>(table.join(t0 + 25h, b, node(1)), b).size() == 1);
}

TEST_CASE("a host that the job cannot do without is not excluded") {
  Table table;
  table.seal();
  refused(table.command(t0, exclude("host1")), Outcome::not_now, "start another node first");
  refused(table.command(t0, exclude("host0")), Outcome::not_now, "hosts the coordinator");
  CHECK(table.job.objection_to_exclude("host1"));
  CHECK_FALSE(table.job.objection_to_exclude("host2"));
}

TEST_CASE("a worker that fails because of a requested restart costs no restart") {
  Table table{3};
  table.seal();
  table.command(t0 + 5s, restart);
  link::Failed failed{.round = RoundNumber{1},
                      .failure = {.rank = Rank{3}, .status = {true, SIGSEGV}, .consequence = true}};
  // A moment before the command, as far as the node's clock is known.
  failed.noticed = std::chrono::duration_cast<link::AgentTime>(4999ms);
  table.hear(t0 + 5100ms, b, failed);
  const auto next = table.drained(t0 + 6s, 1, {a, b});
  REQUIRE(said<link::Sealed>(next, a).size() == 1);
  CHECK(said<link::Sealed>(next, a)[0].restart_count == 0);
}

// --- a host that fails again and again -----------------------------------------------------------

namespace {

// Rounds of `a` and `b`, from first to last, in each of which a worker of `b` fails.
coordinator::Actions fail_on_b(Table& table, std::uint32_t first, std::uint32_t last) {
  coordinator::Actions actions;
  for (std::uint32_t round = first; round <= last; ++round) {
    const TimePoint at = t0 + round * 100s;
    table.hear(at, b,
               link::Failed{.round = RoundNumber{round},
                            .failure = {.rank = Rank{1}, .status = {.value = 3}}});
    actions = table.drained(at, round, {a, b});
  }
  return actions;
}

std::string notes_of(const coordinator::Actions& actions) {
  std::string text;
  for (const auto& action : actions) {
    if (const auto* note = std::get_if<coordinator::Note>(&action)) text += note->line + "\n";
  }
  return text;
}

JobTerms two_failures_are_enough(int nodes_max = 2) {
  return {.id = "j",
          .nodes_min = 2,
          .nodes_max = nodes_max,
          .restarts = {.max = 9, .host_limit = {2, 600s}}};
}

}  // namespace

TEST_CASE("a host with repeated failures loses its seat to a spare and stays excluded") {
  Table table{two_failures_are_enough()};
  table.join(t0, a, any("host-a"), true);
  table.join(t0, b, any("host-b"));
  table.join(t0, c, any("host-c"));
  CHECK(said<link::Dismissed>(fail_on_b(table, 1, 1), b).empty());
  const auto last = fail_on_b(table, 2, 2);
  CHECK(notes_of(last).find("host-b is excluded until the job is over: 2 failures on host-b "
                            "within 600 s (--max-host-failures=2)") != std::string::npos);
  CHECK(said<link::Dismissed>(last, b).size() == 1);
  CHECK(said<link::Sealed>(last, a).size() == 1);
  CHECK(said<link::Sealed>(last, c).size() == 1);
  link::Join another = any("host-b");
  another.agent = 9;
  const auto again = table.join(t0 + 300s, LinkId{4}, another);
  REQUIRE(said<link::Refused>(again, LinkId{4}).size() == 1);
  CHECK(said<link::Refused>(again, LinkId{4})[0].reason.find("--max-host-failures=2") !=
        std::string::npos);
  // An operator who has repaired it may include it again.
  CHECK(table.command(t0 + 301s, include("host-b")).outcome.is_done());
}

TEST_CASE("a host that the job cannot do without keeps its seat, and all nodes get the reason") {
  Table table{two_failures_are_enough()};
  table.join(t0, a, any("host-a"), true);
  table.join(t0, b, any("host-b"));
  const auto last = fail_on_b(table, 1, 2);
  CHECK(notes_of(last).find(
            "cannot exclude the host: only 1 node would be left, but the job needs at least 2") !=
        std::string::npos);
  CHECK(said<link::Dismissed>(last, b).empty());
  CHECK(said<link::Sealed>(last, b).size() == 1);
}

TEST_CASE("the coordinator's own host is never excluded") {
  Table table{two_failures_are_enough()};
  table.join(t0, a, any("host-b"), true);
  table.join(t0, b, any("host-b"));
  table.join(t0, c, any("host-c"));
  const auto last = fail_on_b(table, 1, 2);
  CHECK(notes_of(last).find("hosts the coordinator") != std::string::npos);
  CHECK(said<link::Sealed>(last, b).size() == 1);
}

TEST_CASE("a node that reconnects is asked again to upgrade, until it reports that upgrade") {
  Table table;
  auto upgradable = node(1);
  upgradable.upgrades = true;
  table.join(t0, a, node(0));
  table.join(t0, b, upgradable);
  const OperatorCommand upgrade{.kind = OperatorCommand::Kind::upgrade, .whom = "1"};
  const auto reported = [&] { return table.job.round().find(newer)->upgraded; };
  const auto first = said<link::Upgrade>(table.command(t0 + 1s, upgrade).actions, b);
  REQUIRE(first.size() == 1);
  table.close(t0 + 1s, b, /*broken=*/true);
  CHECK(said<link::Upgrade>(back(table, t0 + 2s, after(upgradable, 1)), newer) == first);
  table.hear(t0 + 2s, newer, link::Upgraded{.number = first[0].number, .version = "2"});
  CHECK(reported().has_value());
  // The next one is not over when the report of the first is repeated.
  const auto second = said<link::Upgrade>(table.command(t0 + 3s, upgrade).actions, newer);
  REQUIRE(second.size() == 1);
  CHECK(second[0].number > first[0].number);
  table.hear(t0 + 3s, newer, link::Upgraded{.number = first[0].number, .version = "2"});
  CHECK_FALSE(reported().has_value());
  table.hear(t0 + 4s, newer, link::Upgraded{.number = second[0].number, .version = "3"});
  REQUIRE(reported().has_value());
  CHECK(reported()->version == "3");
}

}  // namespace job_orders_test
