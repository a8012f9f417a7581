// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/coordinator.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "rendezvous/job/bounds.h"

namespace coordinator_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
constexpr LinkId a{1};
constexpr LinkId b{2};
const JobOptions job_options{.lease = 3s, .status_interval = 5s, .last_call = 30s, .store_port = 7};

link::Join single(std::string job) {
  return {
      .job = std::move(job), .host = "alpha", .pid = 1, .lease = std::chrono::milliseconds(9000)};
}

template <class A>
std::vector<A> all(const Coordinator::Actions& actions) {
  std::vector<A> found;
  for (const auto& action : actions) {
    if (const auto* one = std::get_if<A>(&action)) found.push_back(*one);
  }
  return found;
}

template <class M>
std::vector<M> said(const Coordinator::Actions& actions) {
  std::vector<M> found;
  for (const auto& say : all<coordinator::Say>(actions)) {
    if (const auto* message = std::get_if<M>(&say.message)) found.push_back(*message);
  }
  return found;
}

Coordinator host() {
  JobOptions options = job_options;
  options.lease = 9s;
  return Coordinator{{.only = JobTerms{.id = "j"}, .options = options}};
}
Coordinator daemon() {
  return Coordinator{{.only = {}, .options = job_options}};
}

void open(Coordinator& coordinator, LinkId link) {
  coordinator.handle(t0, Coordinator::Opened{{.link = link, .peer = "10.0.0.1"}});
}

// Called at every deadline on the way, like a driver that is awake.
Coordinator::Actions awake(Coordinator& coordinator, TimePoint now) {
  for (auto due = coordinator.next_deadline(); due && *due < now;
       due = coordinator.next_deadline()) {
    CHECK(coordinator.advance(*due).empty());
  }
  return coordinator.advance(now);
}

}  // namespace

TEST_CASE("a host seats its own job and rejects others, with both names") {
  Coordinator coordinator = host();
  open(coordinator, a);
  open(coordinator, b);
  const auto refused = coordinator.handle(t0, Coordinator::Said{a, single("k")});
  CHECK(said<link::Refused>(refused)[0].reason ==
        "this master runs job \"j\", but alpha has job \"k\"; use the same --rdzv-id on every "
        "node, and one port per job");
  CHECK(all<coordinator::HangUp>(refused).size() == 1);
  const auto sealed = coordinator.handle(t0, Coordinator::Said{b, single("j")});
  CHECK(said<link::Sealed>(sealed)[0].store_port == 7);
  CHECK(all<coordinator::OpenStore>(sealed).empty());
}

TEST_CASE("a round's store is empty when the round starts, and only members may use it") {
  Coordinator coordinator = host();
  Actions ignored;
  coordinator.store("j").apply(ConnectionId{1}, c10d::Set{"stale", "key"}, ignored);
  open(coordinator, a);
  CHECK_FALSE(coordinator.admit("j", "10.0.0.1").has_value());
  coordinator.handle(t0, Coordinator::Said{a, single("j")});
  CHECK(coordinator.store("j").key_count() == 0);
  CHECK(coordinator.admit("j", "10.0.0.1").has_value());
  CHECK_FALSE(coordinator.admit("j", "10.0.0.2").has_value());
}

TEST_CASE("a host is done when its job has ended and its last agent has left") {
  Coordinator coordinator = host();
  open(coordinator, a);
  coordinator.handle(t0, Coordinator::Said{a, single("j")});
  coordinator.handle(t0, Coordinator::Said{a, link::Succeeded{RoundNumber{1}}});
  CHECK_FALSE(coordinator.done());
  coordinator.handle(t0, Coordinator::Closed{a, "bye"});
  CHECK(coordinator.done());
}

TEST_CASE("a daemon opens a store for a job's first node and seats it when the store is open") {
  Coordinator coordinator = daemon();
  open(coordinator, a);
  const auto asked = coordinator.handle(t0, Coordinator::Said{a, single("k")});
  CHECK(all<coordinator::OpenStore>(asked) == std::vector{coordinator::OpenStore{"k"}});
  CHECK(coordinator.job_count() == 0);
  const auto sealed = coordinator.handle(t0, Coordinator::StoreReady{"k", 4444});
  CHECK(said<link::Sealed>(sealed)[0].store_port == 4444);
  CHECK(coordinator.job_count() == 1);
  CHECK(coordinator.next_deadline() < t0 + 9s);  // the lease that its node asked for
}

TEST_CASE("a daemon forgets a job that all nodes have left, and closes its store") {
  Coordinator coordinator = daemon();
  open(coordinator, a);
  coordinator.handle(t0, Coordinator::Said{a, single("k")});
  coordinator.handle(t0, Coordinator::StoreReady{"k", 4444});
  coordinator.handle(t0, Coordinator::Said{a, link::Succeeded{RoundNumber{1}}});
  const auto over = coordinator.handle(t0, Coordinator::Closed{a, "bye"});
  CHECK(all<coordinator::CloseStore>(over) ==
        std::vector{coordinator::CloseStore{"k", "the job is over"}});
  CHECK(coordinator.job_count() == 0);
  CHECK_FALSE(coordinator.admit("k", "127.0.0.1").has_value());
  CHECK_FALSE(coordinator.done());
}

TEST_CASE("a store without a waiting node is closed again") {
  Coordinator coordinator = daemon();
  open(coordinator, a);
  coordinator.handle(t0, Coordinator::Said{a, single("k")});
  coordinator.handle(t0, Coordinator::Closed{a, "gone"});
  CHECK(all<coordinator::CloseStore>(coordinator.handle(t0, Coordinator::StoreReady{"k", 1}))
            .size() == 1);
}

TEST_CASE("a job whose store cannot be opened is rejected with the reason") {
  Coordinator coordinator = daemon();
  open(coordinator, a);
  coordinator.handle(t0, Coordinator::Said{a, single("k")});
  const auto refused = coordinator.handle(t0, Coordinator::StoreFailed{"k", "no descriptors left"});
  CHECK(said<link::Refused>(refused)[0].reason ==
        "cannot open a store for this job: no descriptors left");
}

TEST_CASE("a link without a join, or with another first message, is closed") {
  Coordinator coordinator = host();
  open(coordinator, a);
  CHECK(all<coordinator::HangUp>(awake(coordinator, t0 + 10s - 1ns)).empty());
  CHECK(all<coordinator::HangUp>(awake(coordinator, t0 + 10s)).size() == 1);
  open(coordinator, b);
  CHECK(all<coordinator::HangUp>(coordinator.handle(t0, Coordinator::Said{b, link::Heartbeat{}}))
            .size() == 1);
}

TEST_CASE("a daemon's log lines about a job name the job; a host has only one") {
  Coordinator coordinator = daemon();
  open(coordinator, a);
  coordinator.handle(t0, Coordinator::Said{a, single("k")});
  coordinator.handle(t0, Coordinator::StoreReady{"k", 4444});
  const auto broken = coordinator.handle(t0, Coordinator::Closed{a, "reset"});
  CHECK(all<coordinator::Note>(broken)[0].line ==
        "job \"k\": lost contact with node 0 on alpha: reset; waiting 9 s for it to reconnect");
}

TEST_CASE("numbers that would break a round are rejected by name, and no job starts") {
  Coordinator coordinator = daemon();
  open(coordinator, a);
  auto join = single("j");
  join.local_world_size = -7;
  const auto refused = said<link::Refused>(coordinator.handle(t0, Coordinator::Said{a, join}));
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].reason == "invalid join message: workers=-7 is out of range");
  CHECK(coordinator.job_count() == 0);
}

TEST_CASE("a forgotten job is unknown as soon as its store closes") {
  Coordinator coordinator = daemon();
  open(coordinator, a);
  coordinator.handle(t0, Coordinator::Said{a, single("j")});
  coordinator.handle(t0, Coordinator::StoreReady{"j", 4000});
  CHECK(coordinator.knows("j"));
  CHECK(all<coordinator::CloseStore>(coordinator.handle(t0, Coordinator::Closed{a, "gone", false}))
            .size() == 0);
  CHECK(all<coordinator::CloseStore>(awake(coordinator, t0 + 9s)).size() == 1);
  CHECK_FALSE(coordinator.knows("j"));
}

TEST_CASE("one address cannot take the places of all jobs, whatever it asks for") {
  Coordinator coordinator = daemon();
  std::uint64_t last = 0;
  const auto come = [&](const std::string& peer, link::Join join) {
    const LinkId link{++last};
    coordinator.handle(t0, Coordinator::Opened{{.link = link, .peer = peer}});
    auto said_first = coordinator.handle(t0, Coordinator::Said{link, join});
    if (!all<coordinator::OpenStore>(said_first).empty()) {
      coordinator.handle(t0, Coordinator::StoreReady{join.job, 4000});
    }
    coordinator.handle(t0, Coordinator::Closed{link, "gone", true});
    return said_first;
  };
  link::Join greedy = single("squat");
  greedy.lease = std::chrono::milliseconds(2'147'483'647);
  const auto refused = said<link::Refused>(come("10.6.6.6", greedy));
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].reason ==
        "this daemon accepts a lease of at most 120 s, but alpha has 2147483.647 s "
        "(keep_alive_interval times keep_alive_max_attempt of --rdzv-conf); use a shorter lease, "
        "or start "
        "cpprund with --max-lease=2147484");
  for (int i = 0; i < 2000; ++i) {
    greedy = single("squat" + std::to_string(i));
    greedy.lease = std::chrono::milliseconds(120'000);
    come("10.6.6.6", greedy);
  }
  CHECK(coordinator.job_count() == 256);
  CHECK(said<link::Refused>(come("10.6.6.6", single("more"))).size() == 1);
  CHECK(all<coordinator::OpenStore>(come("10.0.0.1", single("real"))).size() == 1);
  // None of the nodes has a live link, so all are lost when the longest lease has expired.
  awake(coordinator, t0 + 9s);
  CHECK(coordinator.job_count() == 256);
  awake(coordinator, t0 + 120s);
  CHECK(coordinator.job_count() == 0);
  CHECK(all<coordinator::OpenStore>(come("10.6.6.6", single("late"))).size() == 1);
}

TEST_CASE("the number of links per address is limited, and the rejection says so") {
  Coordinator coordinator{{.only = {}, .options = job_options, .limits = {.links_per_source = 2}}};
  open(coordinator, a);
  open(coordinator, b);
  const auto actions =
      coordinator.handle(t0, Coordinator::Opened{{.link = LinkId{3}, .peer = "10.0.0.1"}});
  REQUIRE(said<link::Refused>(actions).size() == 1);
  CHECK(said<link::Refused>(actions)[0].reason ==
        "10.0.0.1 already has 2 connections here, the maximum per address (--max-links-per-address "
        "of "
        "cpprund)");
  CHECK(all<coordinator::HangUp>(actions).size() == 1);
  // Its later messages are ignored, and another link is accepted.
  CHECK(coordinator.handle(t0, Coordinator::Said{LinkId{3}, single("k")}).empty());
  CHECK(
      coordinator.handle(t0, Coordinator::Opened{{.link = LinkId{4}, .peer = "10.0.0.2"}}).empty());
  coordinator.handle(t0, Coordinator::Closed{LinkId{3}, "refused"});
  coordinator.handle(t0, Coordinator::Closed{a, "gone"});
  CHECK(
      coordinator.handle(t0, Coordinator::Opened{{.link = LinkId{5}, .peer = "10.0.0.1"}}).empty());
}

TEST_CASE("a hosted job accepts all of its members from one address") {
  Coordinator coordinator{{.only = JobTerms{.id = "j", .nodes_min = 3, .nodes_max = 3},
                           .options = job_options,
                           .limits = {.links_per_source = 1}}};
  for (std::uint64_t link = 1; link <= 3; ++link) {
    CHECK(coordinator.handle(t0, Coordinator::Opened{{.link = LinkId{link}, .peer = "10.0.0.1"}})
              .empty());
    auto join = single("j");
    join.pid = static_cast<int>(link);
    join.nodes_min = join.nodes_max = 3;
    join.lease = std::chrono::milliseconds(3000);
    coordinator.handle(t0, Coordinator::Said{LinkId{link}, join});
  }
  CHECK(coordinator.admit("j", "10.0.0.1").has_value());
}

TEST_CASE("a job's place is free again if its store could not be opened or no node waited") {
  Coordinator coordinator{{.only = {}, .options = job_options, .limits = {.jobs_per_source = 1}}};
  open(coordinator, a);
  open(coordinator, b);
  coordinator.handle(t0, Coordinator::Said{a, single("k")});
  coordinator.handle(t0, Coordinator::StoreFailed{"k", "no descriptors left"});
  CHECK(all<coordinator::OpenStore>(coordinator.handle(t0, Coordinator::Said{b, single("l")}))
            .size() == 1);
  coordinator.handle(t0, Coordinator::Closed{b, "gone"});
  coordinator.handle(t0, Coordinator::StoreReady{"l", 4001});
  open(coordinator, LinkId{3});
  CHECK(
      all<coordinator::OpenStore>(coordinator.handle(t0, Coordinator::Said{LinkId{3}, single("m")}))
          .size() == 1);
}

TEST_CASE("each job keeps its own deadlines, however many jobs there are") {
  Coordinator coordinator = daemon();
  for (std::uint64_t link = 1; link <= 3; ++link) {
    open(coordinator, LinkId{link});
    auto join = single("job" + std::to_string(link));
    join.lease = std::chrono::seconds(link);
    coordinator.handle(t0, Coordinator::Said{LinkId{link}, join});
    coordinator.handle(t0, Coordinator::StoreReady{join.job, 4000});
  }
  // Shortly before each lease ends.
  CHECK(coordinator.next_deadline() == t0 + 1s - bounds::coordinator_nap);
  coordinator.handle(t0 + 500ms, Coordinator::Said{LinkId{1}, link::Heartbeat{.sent = 1s}});
  CHECK(coordinator.next_deadline() == t0 + 1500ms - bounds::coordinator_nap);
  CHECK(coordinator.advance(t0 + 1s).empty());
  CHECK(all<coordinator::CloseStore>(awake(coordinator, t0 + 1500ms)).size() == 1);
  CHECK(coordinator.next_deadline() == t0 + 2s - bounds::coordinator_nap);
  CHECK_FALSE(coordinator.knows("job1"));
}

TEST_CASE("every node that asks for the host gets an answer, and a second master is reported") {
  Coordinator coordinator = host();
  const link::WhoHosts question{.job = "j", .host = "beta", .pid = 2, .agent = 5};
  open(coordinator, b);
  // No node has a seat here yet, so the owner of the address is unknown.
  CHECK(said<link::Hosts>(coordinator.handle(t0, Coordinator::Said{b, question})).empty());
  coordinator.handle(t0, Coordinator::Opened{{.link = a, .peer = "127.0.0.1", .local = true}});
  link::Join local = single("j");
  local.agent = 9;
  coordinator.handle(t0, Coordinator::Said{a, local});
  open(coordinator, LinkId{3});
  const auto answered = coordinator.handle(t0, Coordinator::Said{LinkId{3}, question});
  REQUIRE(said<link::Hosts>(answered).size() == 1);
  CHECK(said<link::Hosts>(answered)[0] == link::Hosts{.job = "j", .host = "alpha", .pid = 1});
  REQUIRE(all<coordinator::Note>(answered).size() == 1);
  CHECK(all<coordinator::Note>(answered)[0].line.find(
            "job \"j\" has two masters: beta (pid 2) at 10.0.0.1 and this node") == 0);
  CHECK(all<coordinator::HangUp>(answered).size() == 1);
  open(coordinator, LinkId{4});
  const auto itself = coordinator.handle(
      t0, Coordinator::Said{LinkId{4},
                            link::WhoHosts{.job = "j", .host = "alpha", .pid = 1, .agent = 9}});
  CHECK(said<link::Hosts>(itself)[0].itself);
  CHECK(all<coordinator::Note>(itself).empty());
}

TEST_CASE("a daemon answers that it hosts no job of its own, and no job starts") {
  Coordinator coordinator = daemon();
  open(coordinator, a);
  const auto answered = coordinator.handle(t0, Coordinator::Said{a, link::WhoHosts{.job = "j"}});
  CHECK(said<link::Hosts>(answered)[0] == link::Hosts{});
  CHECK(coordinator.job_count() == 0);
}

TEST_CASE("nodes that wait for a master that cannot come yet receive the reason until it joins") {
  Coordinator coordinator{
      {.only = JobTerms{.id = "j", .nodes_min = 3, .nodes_max = 3}, .options = job_options}};
  coordinator.handle(t0, Coordinator::MasterWaits{"the master cannot resolve its own name"});
  const auto come = [&](LinkId link, int rank) {
    auto join = single("j");
    join.pid = rank;
    join.node_rank = rank;
    join.nodes_min = join.nodes_max = 3;
    join.lease = std::chrono::milliseconds(3000);
    coordinator.handle(t0, Coordinator::Opened{{.link = link, .peer = "10.0.0.1", .local = true}});
    coordinator.handle(t0, Coordinator::Said{link, join});
  };
  open(coordinator, b);
  auto second = single("j");
  second.node_rank = 1;
  second.nodes_min = second.nodes_max = 3;
  second.lease = std::chrono::milliseconds(3000);
  coordinator.handle(t0, Coordinator::Said{b, second});
  const auto waiting_at = [&](TimePoint now) {
    coordinator.handle(now, Coordinator::Said{b, link::Heartbeat{.sent = 1s}});
    return said<link::Waiting>(coordinator.advance(now));
  };
  waiting_at(t0 + 2s);
  waiting_at(t0 + 4s);
  const auto waiting = waiting_at(t0 + 5s);
  REQUIRE(waiting.size() == 1);
  CHECK(
      waiting[0].reason ==
      "1 of 3 nodes have joined; missing: node rank 0, node rank 2; the master cannot resolve its "
      "own name");
  come(a, 0);
  waiting_at(t0 + 7s);
  waiting_at(t0 + 9s);
  const auto later = waiting_at(t0 + 10s);
  REQUIRE_FALSE(later.empty());
  CHECK(later[0].reason == "2 of 3 nodes have joined; missing: node rank 2");
}

TEST_CASE("the host of an ended job stays until all connected nodes have the result") {
  Coordinator coordinator = host();
  coordinator.handle(t0, Coordinator::Opened{{.link = a, .peer = "127.0.0.1", .local = true}});
  coordinator.handle(t0, Coordinator::Said{a, single("j")});
  open(coordinator, b);
  coordinator.handle(t0, Coordinator::Said{a, link::Succeeded{RoundNumber{1}}});
  coordinator.handle(t0, Coordinator::Closed{a, "its cpprun exits"});
  CHECK_FALSE(coordinator.done());
  auto late = single("j");
  late.host = "late";
  CHECK(said<link::Finish>(coordinator.handle(t0, Coordinator::Said{b, late})).size() == 1);
  CHECK_FALSE(coordinator.done());
  coordinator.handle(t0, Coordinator::Closed{b, "the job is over"});
  CHECK(coordinator.done());
}

TEST_CASE("a question about the end of a forgotten job does not start another") {
  Coordinator coordinator = daemon();
  open(coordinator, a);
  auto join = single("j");
  join.after = RoundNumber{1};
  join.idle = join.done = true;
  const auto asked = coordinator.handle(t0, Coordinator::Said{a, join});
  CHECK(said<link::Refused>(asked).size() == 1);
  CHECK(all<coordinator::OpenStore>(asked).empty());
}

}  // namespace coordinator_test
