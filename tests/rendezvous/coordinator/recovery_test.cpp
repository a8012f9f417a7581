// SPDX-License-Identifier: BSD-3-Clause
// A daemon that resumes the jobs of another daemon.

#include <doctest/doctest.h>

#include <algorithm>

#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/job/bounds.h"
#include "rendezvous/job/job_record_json.h"

namespace recovery_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};

link::Join single(std::string job) {
  return {.job = std::move(job), .host = "alpha", .pid = 1, .lease = 9s, .last_call = 1s};
}

Coordinator daemon(std::size_t jobs = 10) {
  return Coordinator{{.options = {.lease = 3s, .status_interval = 5s, .last_call = 30s},
                      .limits = {.jobs = jobs},
                      .keeps_records = true}};
}

Coordinator::Actions begin(Coordinator& coordinator, LinkId link, const std::string& job,
                           const std::string& owner = {}) {
  coordinator.handle(
      t0, Coordinator::Opened{{.link = link, .peer = "10.0.0.1", .local = false, .owner = owner}});
  coordinator.handle(t0, Coordinator::Said{link, single(job)});
  return coordinator.handle(t0, Coordinator::StoreReady{job, 7});
}

template <class A>
std::size_t count(const Coordinator::Actions& actions) {
  return static_cast<std::size_t>(std::ranges::count_if(
      actions, [](const auto& each) { return std::holds_alternative<A>(each); }));
}

bool tells(const Coordinator::Actions& actions, const std::string& line) {
  return std::ranges::any_of(actions, [&](const auto& each) {
    const auto* note = std::get_if<coordinator::Note>(&each);
    return note != nullptr && note->line == line;
  });
}

Coordinator::Actions command(Coordinator& coordinator, OperatorCommand::Kind kind,
                             const std::string& host, Duration length = {}) {
  return coordinator.handle(
      t0, Coordinator::Ordered{1, {.kind = kind, .whom = host, .length = length, .by = "uid 7"}});
}

}  // namespace

TEST_CASE("exclusions from future jobs also apply at the next daemon") {
  Coordinator before = daemon();
  const auto excluded = command(before, OperatorCommand::Kind::exclude, "alpha", 60s);
  // The record comes first, so that a client can rely on the answer.
  REQUIRE(excluded.size() == 3);
  const auto* const kept = std::get_if<coordinator::KeepRecord>(&excluded[1]);
  REQUIRE(kept != nullptr);
  CHECK(kept->job == hosts_record_name);
  CHECK(std::holds_alternative<coordinator::Answered>(excluded[2]));

  Coordinator next = daemon();
  const auto known = next.handle(t0, Coordinator::HostsExcluded{before.excluded_hosts()});
  CHECK(tells(known, "still excluded from all new jobs: alpha"));
  CHECK(count<coordinator::KeepRecord>(known) == 1);  // this daemon stores it too
  next.handle(t0, Coordinator::Opened{{.link = LinkId{1}, .peer = "10.0.0.1"}});
  CHECK(count<coordinator::OpenStore>(next.handle(t0, Coordinator::Said{LinkId{1}, single("j")})) ==
        0);
  const auto included = command(next, OperatorCommand::Kind::include, "alpha");
  CHECK(count<coordinator::KeepRecord>(included) == 1);
  CHECK(next.excluded_hosts().empty());
  begin(next, LinkId{2}, "j");
  CHECK(next.knows("j"));
}

TEST_CASE("a job cannot have the name of the exclusion record") {
  Coordinator coordinator = daemon();
  begin(coordinator, LinkId{1}, hosts_record_name);
  CHECK_FALSE(coordinator.knows(hosts_record_name));
}

TEST_CASE("a record is written before any client receives what it says") {
  Coordinator coordinator = daemon();
  const auto sealed = begin(coordinator, LinkId{1}, "j");
  const auto keep = std::ranges::find_if(sealed, [](const auto& each) {
    return std::holds_alternative<coordinator::KeepRecord>(each);
  });
  const auto say = std::ranges::find_if(
      sealed, [](const auto& each) { return std::holds_alternative<coordinator::Say>(each); });
  REQUIRE(keep != sealed.end());
  REQUIRE(say != sealed.end());
  CHECK(keep < say);
  CHECK(count<coordinator::KeepRecord>(
            coordinator.handle(t0, Coordinator::Said{LinkId{1}, link::Heartbeat{}})) == 0);
  CHECK(count<coordinator::KeepRecord>(coordinator.handle(
            t0, Coordinator::Said{LinkId{1}, link::Succeeded{RoundNumber{1}}})) == 1);
}

TEST_CASE("finished nodes are recorded a moment later, together") {
  Coordinator coordinator = daemon();
  auto join = single("j");
  join.nodes_min = join.nodes_max = 2;
  for (const int rank : {0, 1}) {
    const LinkId link{static_cast<std::uint64_t>(rank) + 1};
    coordinator.handle(t0, Coordinator::Opened{{.link = link, .peer = "10.0.0.1"}});
    join.pid = 10 + rank;
    coordinator.handle(t0, Coordinator::Said{link, join});
    if (rank == 0) coordinator.handle(t0, Coordinator::StoreReady{"j", 7});
  }
  REQUIRE(coordinator.find("j")->round().phase() == Round::Phase::sealed);
  const link::Succeeded done{RoundNumber{1}};
  CHECK(count<coordinator::KeepRecord>(
            coordinator.handle(t0, Coordinator::Said{LinkId{1}, done})) == 0);
  const auto due = coordinator.next_deadline();
  REQUIRE(due == t0 + bounds::done_record_delay(2));
  CHECK(count<coordinator::KeepRecord>(coordinator.advance(*due)) == 1);
  CHECK(coordinator.record_of("j").nodes.front().state == Member::State::succeeded);
  CHECK(count<coordinator::KeepRecord>(coordinator.advance(*due + 1s)) == 0);
}

TEST_CASE("a resumed job has its own store, and its owner, founder and timeout") {
  Coordinator before = daemon();
  begin(before, LinkId{1}, "j", "ann");
  Coordinator coordinator = daemon();
  const auto opens =
      coordinator.handle(t0, Coordinator::Recovered{before.record_of("j"), LinkId{1}});
  CHECK(count<coordinator::OpenStore>(opens) == 1);
  CHECK(*coordinator.owner_of("j") == "ann");
  // Its node may be back before the store is open.
  coordinator.handle(t0,
                     Coordinator::Opened{{.link = LinkId{2}, .peer = "10.0.0.1", .owner = "ann"}});
  auto again = single("j");
  again.after = RoundNumber{1};
  CHECK(coordinator.handle(t0, Coordinator::Said{LinkId{2}, again}).empty());
  const auto back = coordinator.handle(t0, Coordinator::StoreReady{"j", 8});
  CHECK(tells(back, "job \"j\" resumes; its 1 nodes must reconnect within 9 s"));
  CHECK(coordinator.find("j")->round().phase() == Round::Phase::draining);
  CHECK(count<coordinator::KeepRecord>(back) == 1);
  const auto sealed =
      coordinator.handle(t0, Coordinator::Said{LinkId{2}, link::Drained{RoundNumber{1}}});
  CHECK(coordinator.find("j")->round().number() == RoundNumber{2});
  CHECK_FALSE(coordinator.check());
}

TEST_CASE("messages that follow a join before the store is open are processed when it is") {
  Coordinator before = daemon();
  begin(before, LinkId{1}, "j", "ann");
  Coordinator coordinator = daemon();
  coordinator.handle(t0, Coordinator::Recovered{before.record_of("j"), LinkId{1}});
  coordinator.handle(t0,
                     Coordinator::Opened{{.link = LinkId{2}, .peer = "10.0.0.1", .owner = "ann"}});
  auto again = single("j");
  again.after = RoundNumber{1};
  coordinator.handle(t0, Coordinator::Said{LinkId{2}, again});
  coordinator.handle(t0, Coordinator::Said{LinkId{2}, link::Drained{RoundNumber{1}}});
  coordinator.handle(t0, Coordinator::StoreReady{"j", 8});
  CHECK(coordinator.find("j")->round().number() == RoundNumber{2});
  CHECK_FALSE(coordinator.check());
}

TEST_CASE("the secret of another owner does not give access to a resumed job") {
  Coordinator before = daemon();
  begin(before, LinkId{1}, "j", "ann");
  Coordinator coordinator = daemon();
  coordinator.handle(t0, Coordinator::Recovered{before.record_of("j"), LinkId{1}});
  coordinator.handle(t0, Coordinator::StoreReady{"j", 8});
  coordinator.handle(t0,
                     Coordinator::Opened{{.link = LinkId{2}, .peer = "10.0.0.1", .owner = "bob"}});
  auto again = single("j");
  again.after = RoundNumber{1};
  const auto refused = coordinator.handle(t0, Coordinator::Said{LinkId{2}, again});
  REQUIRE(!refused.empty());
  const auto* say = std::get_if<coordinator::Say>(&refused.front());
  REQUIRE(say != nullptr);
  CHECK(std::get<link::Refused>(say->message).reason.find("belongs to another user") !=
        std::string::npos);
}

TEST_CASE("a resumed job without nodes ends and is forgotten") {
  Coordinator before = daemon();
  begin(before, LinkId{1}, "j");
  Coordinator coordinator = daemon();
  coordinator.handle(t0, Coordinator::Recovered{before.record_of("j"), LinkId{1}});
  coordinator.handle(t0, Coordinator::StoreReady{"j", 8});
  CHECK(coordinator.knows("j"));
  Coordinator::Actions all;
  while (const auto due = coordinator.next_deadline()) {
    if (*due > t0 + 60s) break;
    for (auto& each : coordinator.advance(*due)) all.push_back(std::move(each));
  }
  CHECK_FALSE(coordinator.knows("j"));
  CHECK(count<coordinator::CloseStore>(all) == 1);
}

TEST_CASE("a store that cannot be opened ends a resumed job with the reason") {
  Coordinator before = daemon();
  begin(before, LinkId{1}, "j");
  Coordinator coordinator = daemon(1);
  coordinator.handle(t0, Coordinator::Recovered{before.record_of("j"), LinkId{1}});
  const auto failed = coordinator.handle(t0, Coordinator::StoreFailed{"j", "no port"});
  CHECK(tells(failed, "job \"j\" cannot resume: cannot open its store: no port"));
  CHECK(count<coordinator::CloseStore>(failed) == 1);  // Its record is deleted, too.
  CHECK_FALSE(coordinator.knows("j"));
  begin(coordinator, LinkId{5}, "k");  // Its place is free.
  CHECK(coordinator.knows("k"));
}

}  // namespace recovery_test
