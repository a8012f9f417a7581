#include "rendezvous/coordinator/keeper.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "proto/bounds.h"

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
constexpr LinkId a{1};
constexpr LinkId b{2};
const JobOptions patient{.lease = 3s, .status_interval = 5s, .last_call = 30s, .store_port = 7};

link::Join single(std::string job) {
  return {.job = std::move(job), .host = "alpha", .pid = 1, .lease_milliseconds = 9000};
}

template <class A>
std::vector<A> all(const Keeper::Actions& actions) {
  std::vector<A> found;
  for (const auto& action : actions) {
    if (const auto* one = std::get_if<A>(&action)) found.push_back(*one);
  }
  return found;
}

template <class M>
std::vector<M> said(const Keeper::Actions& actions) {
  std::vector<M> found;
  for (const auto& say : all<keeper::Say>(actions)) {
    if (const auto* message = std::get_if<M>(&say.message)) found.push_back(*message);
  }
  return found;
}

Keeper host() {
  JobOptions options = patient;
  options.lease = 9s;
  return Keeper{{.only = JobTerms{.id = "j"}, .options = options}};
}
Keeper daemon() {
  return Keeper{{.only = {}, .options = patient}};
}

void open(Keeper& keeper, LinkId link) {
  keeper.handle(t0, Keeper::Opened{{.link = link, .peer = "10.0.0.1"}});
}

// Asked at every deadline on the way, as by a driver that is awake.
Keeper::Actions awake(Keeper& keeper, TimePoint now) {
  for (auto due = keeper.next_deadline(); due && *due < now; due = keeper.next_deadline()) {
    CHECK(keeper.advance(*due).empty());
  }
  return keeper.advance(now);
}

}  // namespace

TEST_CASE("a host seats its own job and refuses every other with both names") {
  Keeper keeper = host();
  open(keeper, a);
  open(keeper, b);
  const auto refused = keeper.handle(t0, Keeper::Said{a, single("k")});
  CHECK(said<link::Refused>(refused)[0].reason ==
        "this master runs job \"j\", but alpha came for job \"k\": give every node the same "
        "--rdzv-id, and each job its own port");
  CHECK(all<keeper::HangUp>(refused).size() == 1);
  const auto sealed = keeper.handle(t0, Keeper::Said{b, single("j")});
  CHECK(said<link::Sealed>(sealed)[0].store_port == 7);
  CHECK(all<keeper::OpenStore>(sealed).empty());
}

TEST_CASE("a round's store is empty when the round begins, and only for the round's members") {
  Keeper keeper = host();
  Effects ignored;
  keeper.store("j").apply(ConnectionId{1}, c10d::Set{"stale", "key"}, ignored);
  open(keeper, a);
  CHECK_FALSE(keeper.admit("j", "10.0.0.1").has_value());
  keeper.handle(t0, Keeper::Said{a, single("j")});
  CHECK(keeper.store("j").key_count() == 0);
  CHECK(keeper.admit("j", "10.0.0.1").has_value());
  CHECK_FALSE(keeper.admit("j", "10.0.0.2").has_value());
}

TEST_CASE("a host is done when its job is over and its last agent has gone") {
  Keeper keeper = host();
  open(keeper, a);
  keeper.handle(t0, Keeper::Said{a, single("j")});
  keeper.handle(t0, Keeper::Said{a, link::Succeeded{RoundNumber{1}}});
  CHECK_FALSE(keeper.done());
  keeper.handle(t0, Keeper::Closed{a, "bye"});
  CHECK(keeper.done());
}

TEST_CASE("a daemon opens a store for a job's first node and seats it when the store is there") {
  Keeper keeper = daemon();
  open(keeper, a);
  const auto asked = keeper.handle(t0, Keeper::Said{a, single("k")});
  CHECK(all<keeper::OpenStore>(asked) == std::vector{keeper::OpenStore{"k"}});
  CHECK(keeper.job_count() == 0);
  const auto sealed = keeper.handle(t0, Keeper::StoreReady{"k", 4444});
  CHECK(said<link::Sealed>(sealed)[0].store_port == 4444);
  CHECK(keeper.job_count() == 1);
  CHECK(keeper.next_deadline() < t0 + 9s);  // the lease its node asked for
}

TEST_CASE("a daemon forgets a job that everybody has left, and closes its store") {
  Keeper keeper = daemon();
  open(keeper, a);
  keeper.handle(t0, Keeper::Said{a, single("k")});
  keeper.handle(t0, Keeper::StoreReady{"k", 4444});
  keeper.handle(t0, Keeper::Said{a, link::Succeeded{RoundNumber{1}}});
  const auto over = keeper.handle(t0, Keeper::Closed{a, "bye"});
  CHECK(all<keeper::CloseStore>(over) == std::vector{keeper::CloseStore{"k", "its job is over"}});
  CHECK(keeper.job_count() == 0);
  CHECK_FALSE(keeper.admit("k", "127.0.0.1").has_value());
  CHECK_FALSE(keeper.done());
}

TEST_CASE("a store that nobody waits for any more is closed again") {
  Keeper keeper = daemon();
  open(keeper, a);
  keeper.handle(t0, Keeper::Said{a, single("k")});
  keeper.handle(t0, Keeper::Closed{a, "gone"});
  CHECK(all<keeper::CloseStore>(keeper.handle(t0, Keeper::StoreReady{"k", 1})).size() == 1);
}

TEST_CASE("a job whose store cannot be opened is refused with the reason") {
  Keeper keeper = daemon();
  open(keeper, a);
  keeper.handle(t0, Keeper::Said{a, single("k")});
  const auto refused = keeper.handle(t0, Keeper::StoreFailed{"k", "no descriptors left"});
  CHECK(said<link::Refused>(refused)[0].reason ==
        "no store can be opened for this job: no descriptors left");
}

TEST_CASE("who greets and never joins is cut off, and so is who begins with something else") {
  Keeper keeper = host();
  open(keeper, a);
  CHECK(all<keeper::HangUp>(awake(keeper, t0 + 10s - 1ns)).empty());
  CHECK(all<keeper::HangUp>(awake(keeper, t0 + 10s)).size() == 1);
  open(keeper, b);
  CHECK(all<keeper::HangUp>(keeper.handle(t0, Keeper::Said{b, link::Heartbeat{}})).size() == 1);
}

TEST_CASE("every line of a daemon about a job says whose it is; a host has only one") {
  Keeper keeper = daemon();
  open(keeper, a);
  keeper.handle(t0, Keeper::Said{a, single("k")});
  keeper.handle(t0, Keeper::StoreReady{"k", 4444});
  const auto broken = keeper.handle(t0, Keeper::Closed{a, "reset"});
  CHECK(all<keeper::Note>(broken)[0].line ==
        "job \"k\": the link of node 0 on alpha broke: reset; it has 9 s to come back");
}

TEST_CASE("numbers that would break a round are refused with their name, and no job begins") {
  Keeper keeper = daemon();
  open(keeper, a);
  auto join = single("j");
  join.local_world_size = -7;
  const auto refused = said<link::Refused>(keeper.handle(t0, Keeper::Said{a, join}));
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].reason == "its join says workers=-7, which cannot be");
  CHECK(keeper.job_count() == 0);
}

TEST_CASE(
    "a job that is forgotten is not known any more, in the breath in which its store closes") {
  Keeper keeper = daemon();
  open(keeper, a);
  keeper.handle(t0, Keeper::Said{a, single("j")});
  keeper.handle(t0, Keeper::StoreReady{"j", 4000});
  CHECK(keeper.knows("j"));
  CHECK(all<keeper::CloseStore>(keeper.handle(t0, Keeper::Closed{a, "gone", false})).size() == 0);
  CHECK(all<keeper::CloseStore>(awake(keeper, t0 + 9s)).size() == 1);
  CHECK_FALSE(keeper.knows("j"));
}

TEST_CASE("one address cannot take the places of all jobs, by whatever it asks for") {
  Keeper keeper = daemon();
  std::uint64_t last = 0;
  const auto come = [&](const std::string& peer, link::Join join) {
    const LinkId link{++last};
    keeper.handle(t0, Keeper::Opened{{.link = link, .peer = peer}});
    auto said_first = keeper.handle(t0, Keeper::Said{link, join});
    if (!all<keeper::OpenStore>(said_first).empty()) {
      keeper.handle(t0, Keeper::StoreReady{join.job, 4000});
    }
    keeper.handle(t0, Keeper::Closed{link, "gone", true});
    return said_first;
  };
  link::Join greedy = single("squat");
  greedy.lease_milliseconds = 2'147'483'647;
  const auto refused = said<link::Refused>(come("10.6.6.6", greedy));
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].reason ==
        "this daemon waits for a silent node for 120 s at most, but alpha came with 2147483.647 s "
        "(keep_alive_interval times keep_alive_max_attempt of --rdzv-conf): ask for less, or start "
        "cpprund with --max-lease=2147484");
  for (int i = 0; i < 2000; ++i) {
    greedy = single("squat" + std::to_string(i));
    greedy.lease_milliseconds = 120'000;
    come("10.6.6.6", greedy);
  }
  CHECK(keeper.job_count() == 256);
  CHECK(said<link::Refused>(come("10.6.6.6", single("more"))).size() == 1);
  CHECK(all<keeper::OpenStore>(come("10.0.0.1", single("real"))).size() == 1);
  // Nobody's link lives, so all of them are gone as soon as the longest silence is over.
  awake(keeper, t0 + 9s);
  CHECK(keeper.job_count() == 256);
  awake(keeper, t0 + 120s);
  CHECK(keeper.job_count() == 0);
  CHECK(all<keeper::OpenStore>(come("10.6.6.6", single("late"))).size() == 1);
}

TEST_CASE("one address has so many links, and is told why there are no more") {
  Keeper keeper{{.only = {}, .options = patient, .limits = {.links_per_source = 2}}};
  open(keeper, a);
  open(keeper, b);
  const auto actions = keeper.handle(t0, Keeper::Opened{{.link = LinkId{3}, .peer = "10.0.0.1"}});
  REQUIRE(said<link::Refused>(actions).size() == 1);
  CHECK(said<link::Refused>(actions)[0].reason ==
        "10.0.0.1 has 2 links here already, the limit of one address (--max-links-per-address of "
        "cpprund)");
  CHECK(all<keeper::HangUp>(actions).size() == 1);
  // What it still says is not heard, and somebody else comes in.
  CHECK(keeper.handle(t0, Keeper::Said{LinkId{3}, single("k")}).empty());
  CHECK(keeper.handle(t0, Keeper::Opened{{.link = LinkId{4}, .peer = "10.0.0.2"}}).empty());
  keeper.handle(t0, Keeper::Closed{LinkId{3}, "refused"});
  keeper.handle(t0, Keeper::Closed{a, "gone"});
  CHECK(keeper.handle(t0, Keeper::Opened{{.link = LinkId{5}, .peer = "10.0.0.1"}}).empty());
}

TEST_CASE("a hosted job takes as many members of one address as there are") {
  Keeper keeper{{.only = JobTerms{.id = "j", .nodes_min = 3, .nodes_max = 3},
                 .options = patient,
                 .limits = {.links_per_source = 1}}};
  for (std::uint64_t link = 1; link <= 3; ++link) {
    CHECK(keeper.handle(t0, Keeper::Opened{{.link = LinkId{link}, .peer = "10.0.0.1"}}).empty());
    auto join = single("j");
    join.pid = static_cast<int>(link);
    join.nodes_min = join.nodes_max = 3;
    join.lease_milliseconds = 3000;
    keeper.handle(t0, Keeper::Said{LinkId{link}, join});
  }
  CHECK(keeper.admit("j", "10.0.0.1").has_value());
}

TEST_CASE("a job's place is free again when its store could not be opened, or nobody waited") {
  Keeper keeper{{.only = {}, .options = patient, .limits = {.jobs_per_source = 1}}};
  open(keeper, a);
  open(keeper, b);
  keeper.handle(t0, Keeper::Said{a, single("k")});
  keeper.handle(t0, Keeper::StoreFailed{"k", "no descriptors left"});
  CHECK(all<keeper::OpenStore>(keeper.handle(t0, Keeper::Said{b, single("l")})).size() == 1);
  keeper.handle(t0, Keeper::Closed{b, "gone"});
  keeper.handle(t0, Keeper::StoreReady{"l", 4001});
  open(keeper, LinkId{3});
  CHECK(all<keeper::OpenStore>(keeper.handle(t0, Keeper::Said{LinkId{3}, single("m")})).size() ==
        1);
}

TEST_CASE("each job keeps its own time, however many there are beside it") {
  Keeper keeper = daemon();
  for (std::uint64_t link = 1; link <= 3; ++link) {
    open(keeper, LinkId{link});
    auto join = single("job" + std::to_string(link));
    join.lease_milliseconds = static_cast<int>(link) * 1000;
    keeper.handle(t0, Keeper::Said{LinkId{link}, join});
    keeper.handle(t0, Keeper::StoreReady{join.job, 4000});
  }
  // A look shortly before each lease ends.
  CHECK(keeper.next_deadline() == t0 + 1s - bounds::keeper_nap);
  keeper.handle(t0 + 500ms, Keeper::Said{LinkId{1}, link::Heartbeat{.sent = 1s}});
  CHECK(keeper.next_deadline() == t0 + 1500ms - bounds::keeper_nap);
  CHECK(keeper.advance(t0 + 1s).empty());
  CHECK(all<keeper::CloseStore>(awake(keeper, t0 + 1500ms)).size() == 1);
  CHECK(keeper.next_deadline() == t0 + 2s - bounds::keeper_nap);
  CHECK_FALSE(keeper.knows("job1"));
}

TEST_CASE("whoever asks who hosts is told, itself too, and a second master is noted") {
  Keeper keeper = host();
  const link::WhoHosts question{.job = "j", .host = "beta", .pid = 2, .agent = 5};
  open(keeper, b);
  // Nobody sits here yet: whose address it is cannot be told.
  CHECK(said<link::Hosts>(keeper.handle(t0, Keeper::Said{b, question})).empty());
  keeper.handle(t0, Keeper::Opened{{.link = a, .peer = "127.0.0.1", .local = true}});
  link::Join local = single("j");
  local.agent = 9;
  keeper.handle(t0, Keeper::Said{a, local});
  open(keeper, LinkId{3});
  const auto answered = keeper.handle(t0, Keeper::Said{LinkId{3}, question});
  REQUIRE(said<link::Hosts>(answered).size() == 1);
  CHECK(said<link::Hosts>(answered)[0] == link::Hosts{.job = "j", .host = "alpha", .pid = 1});
  REQUIRE(all<keeper::Note>(answered).size() == 1);
  CHECK(all<keeper::Note>(answered)[0].line.find(
            "there are two masters of job \"j\": beta (pid 2, 10.0.0.1) hosts it") == 0);
  CHECK(all<keeper::HangUp>(answered).size() == 1);
  open(keeper, LinkId{4});
  const auto itself = keeper.handle(
      t0,
      Keeper::Said{LinkId{4}, link::WhoHosts{.job = "j", .host = "alpha", .pid = 1, .agent = 9}});
  CHECK(said<link::Hosts>(itself)[0].itself);
  CHECK(all<keeper::Note>(itself).empty());
}

TEST_CASE("a daemon answers that it hosts no job of its own, and nothing begins") {
  Keeper keeper = daemon();
  open(keeper, a);
  const auto answered = keeper.handle(t0, Keeper::Said{a, link::WhoHosts{.job = "j"}});
  CHECK(said<link::Hosts>(answered)[0] == link::Hosts{});
  CHECK(keeper.job_count() == 0);
}

TEST_CASE("those who wait for a master that cannot come yet are told why, until it is there") {
  Keeper keeper{{.only = JobTerms{.id = "j", .nodes_min = 3, .nodes_max = 3}, .options = patient}};
  keeper.handle(t0, Keeper::MasterWaits{"the master cannot resolve its own name"});
  const auto come = [&](LinkId link, int rank) {
    auto join = single("j");
    join.pid = rank;
    join.node_rank = rank;
    join.nodes_min = join.nodes_max = 3;
    join.lease_milliseconds = 3000;
    keeper.handle(t0, Keeper::Opened{{.link = link, .peer = "10.0.0.1", .local = true}});
    keeper.handle(t0, Keeper::Said{link, join});
  };
  open(keeper, b);
  auto second = single("j");
  second.node_rank = 1;
  second.nodes_min = second.nodes_max = 3;
  second.lease_milliseconds = 3000;
  keeper.handle(t0, Keeper::Said{b, second});
  const auto told = [&](TimePoint now) {
    keeper.handle(now, Keeper::Said{b, link::Heartbeat{.sent = 1s}});
    return said<link::Waiting>(keeper.advance(now));
  };
  told(t0 + 2s);
  told(t0 + 4s);
  const auto waiting = told(t0 + 5s);
  REQUIRE(waiting.size() == 1);
  CHECK(waiting[0].reason ==
        "1 of 3 nodes are here; missing: node rank 0, node rank 2; the master cannot resolve its "
        "own name");
  come(a, 0);
  told(t0 + 7s);
  told(t0 + 9s);
  const auto later = told(t0 + 10s);
  REQUIRE_FALSE(later.empty());
  CHECK(later[0].reason == "2 of 3 nodes are here; missing: node rank 2");
}

TEST_CASE("the host of a job that is over stays for those who are connected and not told yet") {
  Keeper keeper = host();
  keeper.handle(t0, Keeper::Opened{{.link = a, .peer = "127.0.0.1", .local = true}});
  keeper.handle(t0, Keeper::Said{a, single("j")});
  open(keeper, b);
  keeper.handle(t0, Keeper::Said{a, link::Succeeded{RoundNumber{1}}});
  keeper.handle(t0, Keeper::Closed{a, "its cpprun ends"});
  CHECK_FALSE(keeper.done());
  auto late = single("j");
  late.host = "late";
  CHECK(said<link::Finish>(keeper.handle(t0, Keeper::Said{b, late})).size() == 1);
  CHECK_FALSE(keeper.done());
  keeper.handle(t0, Keeper::Closed{b, "its job is over"});
  CHECK(keeper.done());
}

TEST_CASE("who asks a daemon how a job ended that it has forgotten does not begin another") {
  Keeper keeper = daemon();
  open(keeper, a);
  auto join = single("j");
  join.after = RoundNumber{1};
  join.idle = join.done = true;
  const auto asked = keeper.handle(t0, Keeper::Said{a, join});
  CHECK(said<link::Refused>(asked).size() == 1);
  CHECK(all<keeper::OpenStore>(asked).empty());
}
