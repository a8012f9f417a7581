// SPDX-License-Identifier: BSD-3-Clause
// Elections during faults of their etcd.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/rendezvous/etcd/io/election_stage.h"
#include "tests/rendezvous/etcd/io/etcd_cluster.h"
#include "tests/rendezvous/etcd/io/slow_door.h"

namespace etcd_faults_test {

using namespace cpprun;
using namespace cpprun::test;
using namespace std::chrono_literals;

namespace {

// A leader and a synced follower.
Candidate& lead_in_pair(Stage& stage, Duration ttl) {
  Candidate& alpha = stage.add("alpha", ttl);
  alpha.tell(election::Enter{});
  stage.await([&] { return alpha.leads(); }, "alpha leads");
  Candidate& beta = stage.add("beta", ttl);
  beta.tell(election::Enter{});
  stage.await([&] { return beta.count<election::LeaderIs>() == 1; }, "beta follows");
  alpha.tell(election::Publish{{"beta"}, 1});
  stage.await([&] { return alpha.count<election::Written>() == 1; }, "beta is synced");
  return alpha;
}

void kill_leading_member(Duration ttl) {
  EtcdCluster etcd;
  Stage stage({.endpoints = etcd.endpoints()});
  Candidate& alpha = lead_in_pair(stage, ttl);
  alpha.forget();
  const auto killed = boot_now();
  etcd.kill(etcd.leader());
  alpha.tell(election::Keep{"job", "record", 2});
  // The leader may stay or change; the record exists in either case, or was never reported as
  // written.
  stage.await(
      [&] {
        return alpha.count<election::Written>() == 1 || alpha.count<election::Deposed>() == 1;
      },
      "the leader writes or is deposed");
  Candidate& leader = stage.leader();
  const bool was_kept = alpha.count<election::Deposed>() == 0;
  fmt::print("etcd's leader killed, leases of {:.0f} s: {}, {:.2f} s later\n", in_seconds(ttl),
             was_kept ? "the leader stays and has written" : "another leader was elected",
             in_seconds(boot_now() - killed));
  if (!was_kept) return;
  CHECK(&leader == &alpha);
}

}  // namespace

TEST_CASE("an election survives the death of etcd's leader") {
  if (skips_without_etcd()) return;
  kill_leading_member(2s);
  kill_leading_member(5s);
}

TEST_CASE("a leader without a quorum is deposed by its clock, and leads again afterwards") {
  if (skips_without_etcd()) return;
  EtcdCluster etcd;
  Stage stage({.endpoints = etcd.endpoints()});
  Candidate& alpha = lead_in_pair(stage, 2s);
  const auto epoch = alpha.epoch();
  const auto stopped = boot_now();
  etcd.stop(1);
  etcd.stop(2);
  stage.await([&] { return alpha.count<election::Deposed>() == 1; }, "alpha is deposed");
  fmt::print("quorum lost, and deposed after {:.2f} s\n", in_seconds(boot_now() - stopped));
  const auto deposed = *alpha.last<election::Deposed>();
  CHECK_FALSE(deposed.is_orderly);
  CHECK(integration::contains(deposed.reason, "etcd has not confirmed the leader's lease for"));
  stage.await([&] { return alpha.count<election::Unreachable>() == 1; }, "alpha says so");
  CHECK(integration::contains(alpha.last<election::Unreachable>()->reason,
                              "the member is stopped, or cut off from the other members"));
  CHECK(stage.leaders() == 0);
  const auto going_on = boot_now();
  etcd.go_on(1);
  etcd.go_on(2);
  Candidate& leader = stage.leader();
  fmt::print("quorum back, and {} leads after {:.2f} s\n", leader.name(),
             in_seconds(boot_now() - going_on));
  CHECK(leader.epoch() > epoch);
  // The members may respond once before they elect a leader, and then not for a second.
  stage.await(
      [&] {
        const auto back = alpha.count<election::Reachable>();
        return back > 0 && back == alpha.count<election::Unreachable>();
      },
      "alpha reports that as well");
}

// A former leader of etcd 3.4.23 renews and revokes leases that it no longer owns (issue 15247).
// The stage checks after every step that there is at most one leader.
TEST_CASE("a leader of etcd that is stopped and resumes does not cause two leaders") {
  if (skips_without_etcd()) return;
  EtcdCluster etcd(EtcdCluster::Options{.election_milliseconds = 600});
  Stage stage({.endpoints = etcd.endpoints()});
  lead_in_pair(stage, 3s);
  for (int round = 0; round < 3; ++round) {
    const auto epoch = stage.leader().epoch();
    const int leader = etcd.leader();
    etcd.stop(leader);
    stage.run_for(5s);
    etcd.go_on(leader);
    stage.run_for(2s);
    const bool is_same = stage.leader().epoch() == epoch;
    fmt::print("etcd's leader stopped for 5 s: {}\n",
               is_same ? "the same program leads" : "another program leads");
  }
}

TEST_CASE("a rolling restart of etcd does not depose a leader") {
  if (skips_without_etcd()) return;
  EtcdCluster etcd;
  Stage stage({.endpoints = etcd.endpoints()});
  Candidate& alpha = lead_in_pair(stage, 10s);
  for (int member = 0; member < etcd.size(); ++member) {
    etcd.kill(member);
    stage.run_for(200ms);
    etcd.begin_again(member);
  }
  const auto number = 2U;
  alpha.tell(election::Keep{"job", "record", number});
  stage.await([&] { return alpha.last<election::Written>()->through == number; }, "it is written");
  CHECK(alpha.count<election::Deposed>() == 0);
}

TEST_CASE("a slow etcd has a leader, and writes arrive") {
  if (skips_without_etcd()) return;
  EtcdCluster etcd;
  Stage stage;
  SlowDoor first(stage.context(), etcd.port(0), 100ms);
  SlowDoor second(stage.context(), etcd.port(1), 100ms);
  stage.reach(
      {.endpoints = {{false, "127.0.0.1", first.port()}, {false, "127.0.0.1", second.port()}}});
  const auto begun = boot_now();
  Candidate& alpha = lead_in_pair(stage, 2s);
  fmt::print("each answer takes 200 ms: first leader, follower and record after {:.2f} s\n",
             in_seconds(boot_now() - begun));
  for (std::uint64_t number = 2; number < 12; ++number) {
    alpha.tell(election::Keep{"job", fmt::format("record {}", number), number});
    stage.run_for(200ms);
  }
  stage.await([&] { return alpha.last<election::Written>()->through == 11; }, "all is written");
  CHECK(alpha.count<election::Deposed>() == 0);
  // Slower than the timeout: a win stays unknown, and any outcome is right.
  first.be_as_slow_as(2s);
  second.be_as_slow_as(2s);
  stage.await([&] { return alpha.count<election::Deposed>() == 1; }, "alpha is deposed");
  first.be_as_slow_as(0ms);
  second.be_as_slow_as(0ms);
  Candidate& leader = stage.leader();
  CHECK(leader.last<election::Found>()->records ==
        std::map<std::string, std::string>{{"job", "record 11"}});
}

TEST_CASE("compacted history is not needed") {
  if (skips_without_etcd()) return;
  EtcdCluster etcd;
  Stage stage({.endpoints = etcd.endpoints()});
  Candidate& alpha = lead_in_pair(stage, 2s);
  for (std::uint64_t number = 2; number < 40; ++number) {
    alpha.tell(election::Keep{"job", fmt::format("record {}", number), number});
    stage.run_for(10ms);
  }
  stage.await([&] { return alpha.last<election::Written>()->through == 39; }, "all is written");
  const auto compacted =
      etcd.ask(0, "/v3/kv/compaction",
               fmt::format(R"({{"revision":"{}","physical":true}})", alpha.epoch() + 20));
  CHECK_FALSE(integration::contains(compacted, "error"));
  stage.run_for(3s);
  CHECK(alpha.leads());
  stage.kill(alpha);
  CHECK(stage.leader().last<election::Found>()->records ==
        std::map<std::string, std::string>{{"job", "record 39"}});
}

TEST_CASE(
    "a leader stays the leader while a real etcd is full, and writes when it has space again") {
  if (skips_without_etcd()) return;
  EtcdCluster etcd(EtcdCluster::Options{.words = {"--quota-backend-bytes=4194304"}});
  Stage stage({.endpoints = etcd.endpoints()});
  Candidate& alpha = lead_in_pair(stage, 2s);
  const std::string filling(300'000, 'A');
  for (int each = 0; each < 40; ++each) {
    const auto answer =
        etcd.ask(0, "/v3/kv/put", fmt::format(R"({{"key":"ZmlsbA==","value":"{}"}})", filling));
    if (integration::contains(answer, "space exceeded")) break;
  }
  alpha.tell(election::Keep{"job", "record", 2});
  stage.await([&] { return alpha.count<election::Unwritable>() == 1; }, "alpha says so");
  CHECK(integration::contains(alpha.last<election::Unwritable>()->reason, "is out of space"));
  stage.run_for(4s);
  CHECK(alpha.leads());
  CHECK(alpha.count<election::Deposed>() == 0);
  const auto revision = [&] {
    const auto answer = etcd.ask(0, "/v3/kv/range", R"({"key":"AA=="})");
    const auto at = answer.find("\"revision\":\"") + 12;
    return answer.substr(at, answer.find('"', at) - at);
  }();
  CHECK_FALSE(integration::contains(
      etcd.ask(0, "/v3/kv/compaction", R"({"physical":true,"revision":")" + revision + "\"}"),
      "error"));
  for (int each = 0; each < etcd.size(); ++each) {
    CHECK_FALSE(integration::contains(etcd.ask(each, "/v3/maintenance/defragment", "{}"), "error"));
  }
  const std::string alarms = etcd.ask(0, "/v3/maintenance/alarm", R"({"action":"GET"})");
  for (auto at = alarms.find("memberID"); at != std::string::npos;
       at = alarms.find("memberID", at + 1)) {
    const auto begin = alarms.find(':', at) + 2;
    const auto member = alarms.substr(begin, alarms.find('"', begin) - begin);
    (void)etcd.ask(
        0, "/v3/maintenance/alarm",
        fmt::format(R"({{"action":"DEACTIVATE","memberID":"{}","alarm":"NOSPACE"}})", member));
  }
  stage.await([&] { return alpha.last<election::Written>()->through == 2; }, "it is written");
  CHECK(alpha.count<election::Writable>() == 1);
  CHECK(alpha.count<election::Deposed>() == 0);
}

}  // namespace etcd_faults_test
