// SPDX-License-Identifier: BSD-3-Clause
// A daemon in a cluster with one leader.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rendezvous/coordinator/coordinator.h"

namespace leading_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};

link::Join node(std::uint64_t epoch = 0, bool turns = true) {
  return {.job = "j",
          .host = "alpha",
          .pid = 1,
          .lease = 3s,
          .last_call = 1s,
          .turns = turns,
          .epoch = epoch};
}

Coordinator follower() {
  return Coordinator{{.options = {.lease = 3s, .status_interval = 5s, .last_call = 30s},
                      .keeps_records = true,
                      .follows = true}};
}

Coordinator leader(std::uint64_t epoch = 7) {
  Coordinator coordinator = follower();
  coordinator.handle(t0, Coordinator::Leads{{epoch, {"a:1", "b:1"}, 4s}});
  return coordinator;
}

Coordinator::Actions comes(Coordinator& coordinator, LinkId link, const link::Join& join) {
  coordinator.handle(t0, Coordinator::Opened{{.link = link, .peer = "10.0.0.1"}});
  auto actions = coordinator.handle(t0, Coordinator::Said{link, join});
  const auto more = coordinator.handle(t0, Coordinator::StoreReady{join.job, 7});
  actions.insert(actions.end(), more.begin(), more.end());
  return actions;
}

// The messages of that kind that were sent on that link.
template <class M>
std::vector<M> said(const Coordinator::Actions& actions, LinkId link) {
  std::vector<M> words;
  for (const auto& each : actions) {
    const auto* const say = std::get_if<coordinator::Say>(&each);
    const auto* const word = say == nullptr ? nullptr : std::get_if<M>(&say->message);
    if (word != nullptr && say->link == link) words.push_back(*word);
  }
  return words;
}

template <class A>
std::vector<A> all(const Coordinator::Actions& actions) {
  std::vector<A> found;
  for (const auto& each : actions) {
    if (const auto* const one = std::get_if<A>(&each)) found.push_back(*one);
  }
  return found;
}

}  // namespace

TEST_CASE("a follower rejects joins and names the leader") {
  Coordinator coordinator = follower();
  CHECK(coordinator.follows());
  CHECK_FALSE(coordinator.epoch());
  const auto early = comes(coordinator, LinkId{1}, node());
  REQUIRE(said<link::NotLeading>(early, LinkId{1}).size() == 1);
  CHECK(said<link::NotLeading>(early, LinkId{1})[0].port == 0);
  CHECK(all<coordinator::HangUp>(early).size() == 1);
  CHECK(all<coordinator::OpenStore>(early).empty());
  CHECK(coordinator.handle(t0, Coordinator::Follows{"a leads", "10.0.0.9", 29400}).empty());
  const auto late = comes(coordinator, LinkId{2}, node());
  CHECK(said<link::NotLeading>(late, LinkId{2}) ==
        std::vector{link::NotLeading{"this cpprund is a standby: a leads", "10.0.0.9", 29400}});
  CHECK(coordinator.job_count() == 0);
}

TEST_CASE("a leader says so to agents that know of leaders, and gives their nodes longer leases") {
  Coordinator coordinator = leader();
  CHECK(coordinator.epoch() == 7);
  const auto begun = comes(coordinator, LinkId{1}, node());
  CHECK(said<link::Members>(begun, LinkId{1}) ==
        std::vector{link::Members{7, {"a:1", "b:1"}, 4s, true}});
  CHECK(coordinator.find("j")->lease() == 7s);
  const auto changed = coordinator.handle(t0, Coordinator::MembersChanged{{"a:1"}});
  CHECK(said<link::Members>(changed, LinkId{1}) ==
        std::vector{link::Members{7, {"a:1"}, 4s, true}});
  CHECK(coordinator.handle(t0, Coordinator::MembersChanged{{"a:1"}}).empty());
  coordinator.handle(t0, Coordinator::Closed{LinkId{1}, "it went", true});
  CHECK(coordinator.handle(t0, Coordinator::MembersChanged{{"a:1", "c:1"}}).empty());
}

TEST_CASE("an older agent receives no message that it does not know") {
  Coordinator coordinator = leader();
  const auto begun = comes(coordinator, LinkId{1}, node(0, false));
  CHECK(said<link::Members>(begun, LinkId{1}).empty());
  CHECK(said<link::Sealed>(begun, LinkId{1}).size() == 1);
}

TEST_CASE("a daemon that lost leadership sends only that, and forgets its jobs") {
  Coordinator coordinator = leader();
  comes(coordinator, LinkId{1}, node());
  coordinator.handle(t0, Coordinator::Opened{{.link = LinkId{2}, .peer = "10.0.0.2"}});
  const auto deposed =
      coordinator.handle(t0, Coordinator::Follows{"its lease has run out", "10.0.0.9", 29400});
  for (const LinkId link : {LinkId{1}, LinkId{2}}) {
    CHECK(said<link::NotLeading>(deposed, link) ==
          std::vector{link::NotLeading{"its lease has run out", "10.0.0.9", 29400}});
  }
  CHECK(all<coordinator::Say>(deposed).size() == 2);
  CHECK(all<coordinator::HangUp>(deposed).size() == 2);
  REQUIRE(all<coordinator::CloseStore>(deposed).size() == 1);
  CHECK(all<coordinator::CloseStore>(deposed)[0].goes_on);
  CHECK(all<coordinator::KeepRecord>(deposed).empty());
  CHECK(coordinator.job_count() == 0);
  CHECK(coordinator.follows());
  // Messages on its old links are ignored.
  CHECK(coordinator.handle(t0, Coordinator::Said{LinkId{1}, link::Heartbeat{}}).empty());
  CHECK(coordinator.handle(t0, Coordinator::Closed{LinkId{1}, "hung up"}).empty());
  CHECK_FALSE(coordinator.check());
  CHECK_FALSE(coordinator.next_deadline());
}

TEST_CASE("the node beside the leader has no takeover window, and its successor knows that") {
  const auto joins = [](const char* host) {
    auto join = node();
    join.host = host;
    join.nodes_min = 1;
    join.nodes_max = 2;
    join.agent = 5;
    return join;
  };
  Coordinator first{{.options = {.lease = 3s, .status_interval = 5s, .last_call = 30s},
                     .keeps_records = true,
                     .follows = true,
                     .own_agent = RoundVotes::Agent{"beta", 1, 5}}};
  first.handle(t0, Coordinator::Leads{{7, {"b:1"}, 4s}});
  const auto other = comes(first, LinkId{1}, joins("alpha"));
  CHECK(said<link::Members>(other, LinkId{1})[0].takeover_window == 4s);
  const auto own = comes(first, LinkId{2}, joins("beta"));
  CHECK(said<link::Members>(own, LinkId{2})[0].takeover_window == 0s);
  // It receives that before its seat, with which an earlier window ends.
  const auto is_to_own = [](const auto& each) {
    const auto* const say = std::get_if<coordinator::Say>(&each);
    return say != nullptr && say->link == LinkId{2};
  };
  const auto said_first = std::ranges::find_if(own, is_to_own);
  REQUIRE(said_first != own.end());
  CHECK(std::holds_alternative<link::Members>(std::get<coordinator::Say>(*said_first).message));
  CHECK(said<link::Sealed>(own, LinkId{2}).size() == 1);

  const auto lost_after = [](const JobRecord& record, Duration time) {
    Coordinator successor = follower();
    successor.handle(t0, Coordinator::Leads{{8, {"c:1"}, 4s}});
    successor.handle(t0, Coordinator::Recovered{record, LinkId{5}, true});
    successor.handle(t0, Coordinator::StoreReady{"j", 7});
    for (auto due = successor.next_deadline(); due && *due <= t0 + time;
         due = successor.next_deadline()) {
      successor.advance(*due);
    }
    std::string left;
    successor.find("j")->round().each(
        [&left](LinkId, const Member& member) { left += member.join.host + " "; });
    return left;
  };
  const JobRecord record = first.record_of("j");
  CHECK(lost_after(record, 2900ms).size() == std::string("alpha beta ").size());
  CHECK(lost_after(record, 3100ms) == "alpha ");

  // A leader that has not sealed the round does not know how the node's earlier windows end.
  first.handle(t0, Coordinator::Follows{"its lease has run out"});
  first.handle(t0, Coordinator::Leads{{9, {"b:1"}, 4s}});
  first.handle(t0, Coordinator::Recovered{record, LinkId{10}, true});
  first.handle(t0, Coordinator::StoreReady{"j", 8});
  CHECK(lost_after(first.record_of("j"), 6900ms).size() == std::string("alpha beta ").size());
}

TEST_CASE("a daemon that leads again has only the jobs that it is given") {
  Coordinator first = leader();
  comes(first, LinkId{1}, node());
  const JobRecord record = first.record_of("j");
  first.handle(t0, Coordinator::Follows{"its lease has run out"});
  first.handle(t0, Coordinator::Leads{{9, {"a:1"}, 4s}});
  CHECK(first.job_count() == 0);
  first.handle(t0, Coordinator::Recovered{record, LinkId{10}, true});
  const auto back = first.handle(t0, Coordinator::StoreReady{"j", 8});
  CHECK(all<coordinator::RestoreStore>(back).size() == 1);
  CHECK(first.find("j")->lease() == 7s);
  CHECK_FALSE(first.find("j")->has_lost_its_store());
}

TEST_CASE("an agent that has followed a later leader is rejected, without effect on others") {
  Coordinator coordinator = leader();
  const auto turned = comes(coordinator, LinkId{1}, node(8));
  CHECK(said<link::NotLeading>(turned, LinkId{1}).size() == 1);
  CHECK(all<coordinator::Say>(turned).size() == 1);
  CHECK(all<coordinator::HangUp>(turned).size() == 1);
  CHECK(coordinator.job_count() == 0);
  CHECK(said<link::Sealed>(comes(coordinator, LinkId{2}, node(7)), LinkId{2}).size() == 1);
}

TEST_CASE("a command is rejected while there is no leader, with the address to ask") {
  Coordinator coordinator = follower();
  coordinator.handle(t0, Coordinator::Follows{"a leads", "10.0.0.9", 29400});
  const auto answered = coordinator.handle(
      t0, Coordinator::Ordered{1, {.kind = OperatorCommand::Kind::stop, .job = "j"}});
  REQUIRE(all<coordinator::Answered>(answered).size() == 1);
  CHECK(all<coordinator::Answered>(answered)[0].outcome.sentence ==
        "this cpprund is a standby; use the leader at 10.0.0.9:29400");
}

TEST_CASE("a leader is asked to transfer leadership, and the client receives the result") {
  Coordinator coordinator = leader();
  const OperatorCommand command{.kind = OperatorCommand::Kind::handover, .by = "uid 7"};
  const auto asked = coordinator.handle(t0, Coordinator::Ordered{3, command});
  CHECK(all<coordinator::Answered>(asked).empty());
  CHECK(all<coordinator::HandOver>(asked) == std::vector{coordinator::HandOver{3, command}});
  // By then another daemon is the leader.
  coordinator.handle(t0, Coordinator::Follows{"b leads", "10.0.0.9", 29400});
  const CommandResult outcome{CommandResult::Kind::done, "\"b\" leads"};
  const auto result = coordinator.handle(t0, Coordinator::HandedOver{3, command, outcome});
  CHECK(all<coordinator::Answered>(result) ==
        std::vector{coordinator::Answered{3, command, outcome}});
  CHECK(all<coordinator::Note>(result)[0].line == "uid 7 asks to hand over: \"b\" leads");
}

TEST_CASE("a standby rejects a transfer and names the leader") {
  Coordinator coordinator = follower();
  coordinator.handle(t0, Coordinator::Follows{"a leads", "10.0.0.9", 29400});
  const auto result =
      coordinator.handle(t0, Coordinator::Ordered{1, {.kind = OperatorCommand::Kind::handover}});
  REQUIRE(all<coordinator::Answered>(result).size() == 1);
  CHECK(all<coordinator::Answered>(result)[0].outcome.sentence ==
        "this cpprund is a standby; use the leader at 10.0.0.9:29400");
}

TEST_CASE("messages that arrive just before the daemon leads are processed when it does") {
  Coordinator before = leader();
  comes(before, LinkId{1}, node());
  Coordinator successor = follower();
  successor.handle(t0, Coordinator::Follows{.reason = "a hands over", .is_about_to_lead = true});
  successor.handle(t0, Coordinator::Opened{{.link = LinkId{9}, .peer = "10.0.0.1"}});
  auto again = node(7);
  again.after = RoundNumber{1};
  CHECK(successor.handle(t0, Coordinator::Said{LinkId{9}, again}).empty());
  CHECK(
      successor.handle(t0, Coordinator::Said{LinkId{9}, link::Succeeded{RoundNumber{1}}}).empty());
  successor.handle(t0, Coordinator::Leads{{8, {"b:1"}, 4s}});
  successor.handle(t0, Coordinator::Recovered{before.record_of("j"), LinkId{5}, true});
  successor.handle(t0, Coordinator::StoreReady{"j", 7});
  const auto heard = successor.handle(t0, Coordinator::LetsIn{});
  CHECK(said<link::Members>(heard, LinkId{9}).size() == 1);
  REQUIRE(said<link::Finish>(heard, LinkId{9}).size() == 1);
  CHECK(said<link::Finish>(heard, LinkId{9})[0].exit_code == 0);
}

TEST_CASE("a client that waits for a daemon to lead is rejected when another leads") {
  Coordinator successor = follower();
  successor.handle(t0, Coordinator::Follows{.reason = "a hands over", .is_about_to_lead = true});
  successor.handle(t0, Coordinator::Opened{{.link = LinkId{9}, .peer = "10.0.0.1"}});
  CHECK(successor.handle(t0, Coordinator::Said{LinkId{9}, node()}).empty());
  const auto answer = successor.handle(
      t0, Coordinator::Follows{.reason = "\"c\" leads", .address = "10.0.0.3", .port = 1});
  REQUIRE(said<link::NotLeading>(answer, LinkId{9}).size() == 1);
  CHECK(said<link::NotLeading>(answer, LinkId{9})[0].address == "10.0.0.3");
  // Its earlier messages are dropped.
  CHECK(successor.handle(t0, Coordinator::Said{LinkId{9}, link::Drained{}}).empty());
}

}  // namespace leading_test
