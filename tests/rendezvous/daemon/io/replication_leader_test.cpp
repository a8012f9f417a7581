// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/replication_leader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

#include "proto/bounds.h"
#include "tests/rendezvous/daemon/io/standby_stage.h"

namespace standbys_test {

using namespace cpprun;
using namespace cpprun::test;
using namespace std::chrono_literals;
using Kind = link::StandbyRecord::Kind;

namespace {

using Names = std::vector<std::string>;

// One that leads jobs without stores, and whoever stands by for it.
struct Leader {
  Leader()
      : routes(connections, {.loop = {.now = [this] { return loop.now(); }}}),
        logs(connections, routes, {.soon = loop.loop().soon}),
        standbys(loop.loop(),
                 {.standbys_max = 3,
                  .say = [this](LogLevel, const std::string& it) { said.push_back(it); },
                  .logs = &logs,
                  .records = [] { return std::map<std::string, std::string>(); },
                  .wait_for = [this](std::uint64_t place) { awaited = place; },
                  .kept = [this](std::uint64_t through) { kept = through; },
                  .make_known =
                      [this](const Names& names) {
                        asked = names;
                        if (ends_where_asked) standbys.end("it leads no more");
                      },
                  .changed = [](const Names&) {}}) {
    standbys.begin({.name = "alpha", .cluster = "c", .version = "1", .epoch = 1});
  }
  std::shared_ptr<StagedLink> adopt(const std::string& name) {
    auto link = std::make_shared<StagedLink>();
    standbys.adopt(link, {.name = name,
                          .cluster = "c",
                          .version = "1",
                          .features = link::standby_features,
                          .address = name + ":1",
                          .has_etcd = true});
    loop.run_until_idle();
    return link;
  }
  // One that has everything, and may lead.
  std::shared_ptr<StagedLink> stand_by(const std::string& name) {
    auto link = adopt(name);
    has_all(*link);
    standbys.known(asked);
    return link;
  }
  // It says that it has everything that it was told.
  void has_all(StagedLink& link) {
    const auto last = link::read_standby_frame(std::string_view(link.frames.back()).substr(4));
    REQUIRE(last);
    CHECK(link.callbacks.streams(
              link::standby_frame({.kind = Kind::has, .number = last->number}).substr(4)) == "");
    loop.run_until_idle();
  }
  // Of the kind that is said all the time.
  void beat(StagedLink& link) { link.callbacks.message(link::Heartbeat{}); }
  bool is_told() const { return kept >= awaited; }
  bool says(const std::string& words) const {
    return std::ranges::any_of(said, [&](const auto& it) { return it.find(words) != it.npos; });
  }

  StagedLoop loop;
  ConnectionSet connections;
  StreamRoutes routes;
  StoreLogs logs;
  std::vector<std::string> said;
  std::uint64_t awaited = 0;
  std::uint64_t kept = 0;
  Names asked;
  bool ends_where_asked = false;  // as where etcd says that another one leads
  ReplicationLeader standbys;
};

}  // namespace

TEST_CASE("nodes are told what the one that stands by has") {
  Leader leader;
  const auto bravo = leader.adopt("bravo");
  CHECK(leader.asked.empty());
  leader.has_all(*bravo);
  CHECK(leader.asked == Names{"alpha", "bravo"});
  leader.standbys.known(leader.asked);
  CHECK(leader.is_told());
  leader.standbys.keep("job", "record");
  CHECK_FALSE(leader.is_told());
  leader.has_all(*bravo);
  CHECK(leader.is_told());
}

TEST_CASE("one that is there but too slow is waited for a second, and then is not to lead") {
  Leader leader;
  const auto bravo = leader.stand_by("bravo");
  leader.standbys.keep("job", "record");
  for (auto waited = 0ms; waited < 2 * bounds::standby_silence; waited += 100ms) {
    leader.beat(*bravo);
    leader.loop.pass(100ms);
  }
  CHECK(leader.says("bytes behind for 1 s; it cannot become the leader"));
  CHECK(leader.asked == Names{"alpha"});
  // It may lead until that is known.
  CHECK_FALSE(leader.is_told());
  leader.standbys.known(leader.asked);
  CHECK(leader.is_told());
  CHECK(bravo->ended.empty());
  // It has what it lacked: it counts again.
  leader.has_all(*bravo);
  CHECK(leader.asked == Names{"alpha", "bravo"});
  leader.standbys.known(leader.asked);
  leader.standbys.keep("job", "another record");
  CHECK_FALSE(leader.is_told());
  leader.has_all(*bravo);
  CHECK(leader.is_told());
}

TEST_CASE("of what a standby does not take no more than a bound waits for it") {
  Leader leader;
  const auto bravo = leader.stand_by("bravo");
  const std::string record(8 * 1024 * 1024, 'x');
  bravo->takes_more = false;
  leader.standbys.keep("job", record);
  for (auto waited = 0ms; waited < 2 * bounds::standby_silence; waited += 100ms) {
    leader.beat(*bravo);
    leader.loop.pass(100ms);
  }
  CHECK(leader.says("is out of sync"));
  for (auto told = record.size(); told < bounds::standby_bytes_behind_max; told += record.size()) {
    CHECK(bravo->ended.empty());
    leader.standbys.keep("job", record);
    leader.beat(*bravo);
    leader.loop.pass(bounds::standby_beat);
  }
  CHECK(leader.says("the stores change faster than the network can send the changes"));
  CHECK_FALSE(bravo->ended.empty());
}

TEST_CASE("two that are too slow at once are left by one that leads no more when it says so") {
  Leader leader;
  const auto bravo = leader.stand_by("bravo");
  const auto charlie = leader.stand_by("charlie");
  leader.standbys.keep("job", "record");
  leader.ends_where_asked = true;
  for (auto waited = 0ms; waited < 2 * bounds::standby_silence; waited += 100ms) {
    for (StagedLink* const each : {bravo.get(), charlie.get()}) {
      if (each->ended.empty()) leader.beat(*each);
    }
    leader.loop.pass(100ms);
  }
  CHECK_FALSE(leader.standbys.is_begun());
  CHECK(bravo->ended == "it leads no more");
  CHECK(charlie->ended == "it leads no more");
  CHECK(std::ranges::count_if(leader.said, [](const std::string& it) {
          return it.find("is out of sync") != it.npos;
        }) == 1);
}

TEST_CASE("one that says nothing is not waited for, and what all wait for then is said") {
  Leader leader;
  const auto bravo = leader.stand_by("bravo");
  leader.standbys.keep("job", "record");
  leader.loop.pass(bounds::standby_silence + bounds::standby_beat);
  CHECK(leader.says("lost standby \"bravo\": no message for 1 s"));
  CHECK_FALSE(leader.is_told());
  CHECK_FALSE(leader.says("replies to all nodes are paused"));
  // etcd does not answer.
  leader.loop.pass(bounds::standby_silence + bounds::standby_beat);
  CHECK(leader.says(
      "replies to all nodes are paused: standby \"bravo\" is lost, and etcd still lists it"));
  leader.standbys.known({"alpha"});
  CHECK(leader.is_told());
}

TEST_CASE("own sleep is no silence of those that stand by") {
  Leader leader;
  const auto bravo = leader.stand_by("bravo");
  leader.standbys.keep("job", "record");
  leader.loop.sleep(60s);
  leader.loop.pass(2 * bounds::standby_beat);
  CHECK(bravo->ended.empty());
  leader.has_all(*bravo);
  CHECK(leader.is_told());
  CHECK(leader.asked == Names{"alpha", "bravo"});
  // Whatever was heard before the alarm could ring: a second of silence is one.
  leader.loop.sleep(60s);
  leader.beat(*bravo);
  leader.loop.pass(bounds::standby_silence + 2 * bounds::standby_beat);
  CHECK(leader.says("lost standby \"bravo\": no message for 1 s"));
}

TEST_CASE("a standby that comes anew takes its own place, and one of the same name does not") {
  Leader leader;
  const auto bravo = leader.adopt("bravo#1");
  leader.has_all(*bravo);
  const auto twin = leader.adopt("bravo#2");
  CHECK(std::get<link::Refused>(twin->messages.front()).reason ==
        "another standby is called \"bravo\" too, at bravo#1:1; give each cpprund its own --name");
  CHECK_FALSE(twin->ended.empty());
  CHECK(bravo->ended.empty());
  const auto again = leader.adopt("bravo#1");
  CHECK(bravo->ended == "it reconnected");
  CHECK(std::holds_alternative<link::Leads>(again->messages.front()));
  // Another life of it, after the one before is known to be gone.
  leader.loop.pass(bounds::standby_silence + bounds::standby_beat);
  CHECK(again->ended == "no message for 1 s");
  const auto anew = leader.adopt("bravo#2");
  CHECK(std::holds_alternative<link::Leads>(anew->messages.front()));
}

// --- who may not stand by ------------------------------------------------------------------------

namespace {

std::string refusal_of(Leader& leader, link::Follow follow) {
  auto link = std::make_shared<StagedLink>();
  leader.standbys.adopt(link, follow);
  leader.loop.run_until_idle();
  CHECK_FALSE(link->ended.empty());
  const auto* const refused =
      link->messages.empty() ? nullptr : std::get_if<link::Refused>(&link->messages.front());
  return refused == nullptr ? std::string() : refused->reason;
}

link::Follow bravo_of(const std::string& cluster, int features) {
  return {.name = "bravo",
          .cluster = cluster,
          .version = "2",
          .features = features,
          .address = "bravo:1",
          .has_etcd = true};
}

}  // namespace

TEST_CASE("a standby of another cluster is refused, with both names") {
  Leader leader;
  CHECK(refusal_of(leader, bravo_of("d", link::standby_features)) ==
        "the standby belongs to cluster \"d\", the leader to \"c\"; start both with the same "
        "--etcd and --cluster");
  CHECK(leader.says("rejected standby \"bravo\" at bravo:1: the standby belongs to"));
  CHECK(leader.standbys.seen().empty());
}

TEST_CASE("two that say that they are met at one place are not both taken") {
  Leader leader;
  leader.stand_by("bravo");
  auto twin = bravo_of("c", link::standby_features);
  twin.name = "charlie";
  CHECK(refusal_of(leader, twin) ==
        "standby \"bravo\" advertises the same address; give each cpprund its own --advertise");
}

TEST_CASE("a standby that cannot keep what there is to keep is refused, with both versions") {
  Leader leader;
  CHECK(refusal_of(leader, bravo_of("c", 0)) ==
        "the standby's cpprund 2 is too old for the leader's cpprund 1; upgrade the standby first, "
        "then the leader");
}

TEST_CASE("a standby without etcd, of an earlier build, is rejected") {
  Leader leader;
  auto bravo = bravo_of("c", link::standby_features);
  bravo.has_etcd = false;
  CHECK(refusal_of(leader, bravo) ==
        "the standby does not use --etcd; start it with the same --etcd and --cluster as the "
        "leader");
}

}  // namespace standbys_test
