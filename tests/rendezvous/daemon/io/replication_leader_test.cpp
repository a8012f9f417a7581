// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/replication_leader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

#include "rendezvous/daemon/bounds.h"
#include "tests/rendezvous/daemon/io/standby_stage.h"

namespace standbys_test {

using namespace cpprun;
using namespace cpprun::test;
using namespace std::chrono_literals;
using Kind = link::StandbyRecord::Kind;

namespace {

using Names = std::vector<std::string>;

// A leader of jobs without stores, with its standbys.
struct Leader {
  Leader()
      : server(loop),
        standbys(loop.loop(), server,
                 {.standbys_max = 3,
                  .say = [this](LogLevel, const std::string& it) { said.push_back(it); },
                  .replicated = [] {},
                  .make_known =
                      [this](const Names& names) {
                        asked = names;
                        if (ends_where_asked) standbys.end("lost leadership");
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
  // A standby that is in sync and published in etcd.
  std::shared_ptr<StagedLink> stand_by(const std::string& name) {
    auto link = adopt(name);
    has_all(*link);
    standbys.known(asked);
    return link;
  }
  // Acknowledges all records that were sent on the link.
  void has_all(StagedLink& link) {
    const auto last = link::read_standby_frame(std::string_view(link.frames.back()).substr(4));
    REQUIRE(last);
    CHECK(link.callbacks.streams(
              link::standby_frame({.kind = Kind::has, .number = last->number}).substr(4)) == "");
    loop.run_until_idle();
  }
  void heartbeat(StagedLink& link) { link.callbacks.message(link::Heartbeat{}); }
  bool replies_are_released() const { return server.replicated >= server.awaited; }
  bool says(const std::string& words) const {
    return std::ranges::any_of(said, [&](const auto& it) { return it.find(words) != it.npos; });
  }

  StagedLoop loop;
  StagedServer server;
  std::vector<std::string> said;
  Names asked;
  bool ends_where_asked = false;  // as if etcd names another leader at this point
  ReplicationLeader standbys;
};

}  // namespace

TEST_CASE("replies wait until a standby has the record") {
  Leader leader;
  const auto bravo = leader.adopt("bravo");
  CHECK(leader.asked.empty());
  leader.has_all(*bravo);
  CHECK(leader.asked == Names{"alpha", "bravo"});
  leader.standbys.known(leader.asked);
  CHECK(leader.replies_are_released());
  leader.standbys.keep("job", "record");
  CHECK_FALSE(leader.replies_are_released());
  leader.has_all(*bravo);
  CHECK(leader.replies_are_released());
}

TEST_CASE("a standby that is alive but too slow loses its sync after one second") {
  Leader leader;
  const auto bravo = leader.stand_by("bravo");
  leader.standbys.keep("job", "record");
  for (auto waited = 0ms; waited < 2 * bounds::standby_silence; waited += 100ms) {
    leader.heartbeat(*bravo);
    leader.loop.pass(100ms);
  }
  CHECK(leader.says("bytes behind for 1 s; it cannot become the leader"));
  CHECK(leader.asked == Names{"alpha"});
  // It remains eligible until etcd has the change.
  CHECK_FALSE(leader.replies_are_released());
  leader.standbys.known(leader.asked);
  CHECK(leader.replies_are_released());
  CHECK(bravo->ended.empty());
  // After it has caught up it counts again.
  leader.has_all(*bravo);
  CHECK(leader.asked == Names{"alpha", "bravo"});
  leader.standbys.known(leader.asked);
  leader.standbys.keep("job", "another record");
  CHECK_FALSE(leader.replies_are_released());
  leader.has_all(*bravo);
  CHECK(leader.replies_are_released());
}

TEST_CASE("a standby that accepts no data is dropped when it is too far behind") {
  Leader leader;
  const auto bravo = leader.stand_by("bravo");
  const std::string record(8 * 1024 * 1024, 'x');
  bravo->takes_more = false;
  leader.standbys.keep("job", record);
  for (auto waited = 0ms; waited < 2 * bounds::standby_silence; waited += 100ms) {
    leader.heartbeat(*bravo);
    leader.loop.pass(100ms);
  }
  CHECK(leader.says("is out of sync"));
  for (auto sent = record.size(); sent < bounds::standby_bytes_behind_max; sent += record.size()) {
    CHECK(bravo->ended.empty());
    leader.standbys.keep("job", record);
    leader.heartbeat(*bravo);
    leader.loop.pass(bounds::standby_beat);
  }
  CHECK(leader.says("the stores change faster than the network can send the changes"));
  CHECK_FALSE(bravo->ended.empty());
}

TEST_CASE("a leader that loses leadership while it drops one slow standby ends all standbys") {
  Leader leader;
  const auto bravo = leader.stand_by("bravo");
  const auto charlie = leader.stand_by("charlie");
  leader.standbys.keep("job", "record");
  leader.ends_where_asked = true;
  for (auto waited = 0ms; waited < 2 * bounds::standby_silence; waited += 100ms) {
    for (StagedLink* const each : {bravo.get(), charlie.get()}) {
      if (each->ended.empty()) leader.heartbeat(*each);
    }
    leader.loop.pass(100ms);
  }
  CHECK(leader.standbys.names().empty());
  CHECK(bravo->ended == "lost leadership");
  CHECK(charlie->ended == "lost leadership");
  CHECK(std::ranges::count_if(leader.said, [](const std::string& it) {
          return it.find("is out of sync") != it.npos;
        }) == 1);
}

TEST_CASE("a silent standby is dropped, and paused replies are reported with the reason") {
  Leader leader;
  const auto bravo = leader.stand_by("bravo");
  leader.standbys.keep("job", "record");
  leader.loop.pass(bounds::standby_silence + bounds::standby_beat);
  CHECK(leader.says("lost standby \"bravo\": no message for 1 s"));
  CHECK_FALSE(leader.replies_are_released());
  CHECK_FALSE(leader.says("replies to all nodes are paused"));
  // etcd does not answer.
  leader.loop.pass(bounds::standby_silence + bounds::standby_beat);
  CHECK(leader.says(
      "replies to all nodes are paused: standby \"bravo\" is lost, and etcd still lists it"));
  leader.standbys.known({"alpha"});
  CHECK(leader.replies_are_released());
}

TEST_CASE("the leader's own suspension does not count as silence of its standbys") {
  Leader leader;
  const auto bravo = leader.stand_by("bravo");
  leader.standbys.keep("job", "record");
  leader.loop.sleep(60s);
  leader.loop.pass(2 * bounds::standby_beat);
  CHECK(bravo->ended.empty());
  leader.has_all(*bravo);
  CHECK(leader.replies_are_released());
  CHECK(leader.asked == Names{"alpha", "bravo"});
  // Silence counts from the wake-up, whatever was received before it.
  leader.loop.sleep(60s);
  leader.heartbeat(*bravo);
  leader.loop.pass(bounds::standby_silence + 2 * bounds::standby_beat);
  CHECK(leader.says("lost standby \"bravo\": no message for 1 s"));
}

TEST_CASE("a standby that reconnects is accepted, and another one with its name is rejected") {
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
  // A new run of "bravo" is accepted after the old one is lost.
  leader.loop.pass(bounds::standby_silence + bounds::standby_beat);
  CHECK(again->ended == "no message for 1 s");
  const auto anew = leader.adopt("bravo#2");
  CHECK(std::holds_alternative<link::Leads>(anew->messages.front()));
}

// --- rejected standbys ---------------------------------------------------------------------------

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

TEST_CASE("a standby of another cluster is rejected with both cluster names") {
  Leader leader;
  CHECK(refusal_of(leader, bravo_of("d", link::standby_features)) ==
        "the standby belongs to cluster \"d\", the leader to \"c\"; start both with the same "
        "--etcd and --cluster");
  CHECK(leader.says("rejected standby \"bravo\" at bravo:1: the standby belongs to"));
  CHECK(leader.standbys.seen().empty());
}

TEST_CASE("a standby with the address of another one is rejected") {
  Leader leader;
  leader.stand_by("bravo");
  auto twin = bravo_of("c", link::standby_features);
  twin.name = "charlie";
  CHECK(refusal_of(leader, twin) ==
        "standby \"bravo\" advertises the same address; give each cpprund its own --advertise");
}

TEST_CASE("a standby that is too old to replicate is rejected with both versions") {
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
