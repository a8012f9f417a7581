// SPDX-License-Identifier: BSD-3-Clause
// What an agent does when its coordinator, its network or its own process stops: none of its
// workers may run when other nodes have its ranks.

#include <doctest/doctest.h>

#include <csignal>

#include "launcher/agent/agent.h"
#include "rendezvous/job/bounds.h"
#include "tests/launcher/agent/agent_stage.h"

namespace agent_link_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

constexpr Duration own_lease = 3s - bounds::fence_margin;

std::string reason_of(const Agent::Actions& actions) {
  const auto last = all<events::JobEnded>(actions);
  REQUIRE(last.size() == 1);
  CHECK(last[0].exit_code == 1);
  return last[0].reason;
}

}  // namespace

TEST_CASE("workers are killed, exit 1, when the master does not respond for the lease") {
  Stage stage;
  stage.run();
  stage.answered(t0 + 1s);
  CHECK(work<supervisor::SignalGroup>(stage.pass(t0 + 1s + own_lease - 1ms)).empty());
  const auto gone = stage.pass(t0 + 1s + own_lease);
  REQUIRE(work<supervisor::SignalGroup>(gone).size() == 1);
  CHECK(work<supervisor::SignalGroup>(gone)[0].signal == SIGKILL);
  const auto last = stage.end_worker(t0 + 5s, {.signalled = true, .value = SIGKILL});
  CHECK(reason_of(last).starts_with("lost contact with master 10.0.0.1:29500: "));
}

TEST_CASE("a coordinator that sends messages but answers no heartbeat loses the link") {
  Stage stage;
  stage.run();
  stage.answered(t0 + 1s);
  // It still broadcasts, but no message answers this node.
  for (int i = 2; i < 7; ++i) stage.heard(t0 + i * 500ms, link::Waiting{"a node is missing"});
  const auto gone = stage.pass(t0 + 1s + own_lease);
  CHECK(work<supervisor::SignalGroup>(gone).size() == 1);
}

TEST_CASE("the lease counts from when the answered heartbeat was sent, not from the answer") {
  Stage stage;
  stage.run();
  stage.heard(t0 + 2500ms, link::Heartbeat{.sent = 1s});
  CHECK(stage.agent.next_deadline() <= t0 + 1s + own_lease);
  CHECK(work<supervisor::SignalGroup>(stage.pass(t0 + 1s + own_lease)).size() == 1);
}

TEST_CASE("an answer just before the lease expires is reported as a near miss") {
  Stage stage;
  stage.run();
  // In time: a heartbeat's own interval and half of what the lease leaves beside it.
  const auto in_time = stage.heard(t0 + 1900ms, link::Heartbeat{.sent = 1s});
  CHECK(all<events::LeaseNearlyMissed>(in_time).empty());
  const auto late = stage.heard(t0 + 3500ms, link::Heartbeat{.sent = 2s});
  REQUIRE(all<events::LeaseNearlyMissed>(late).size() == 1);
  CHECK(all<events::LeaseNearlyMissed>(late)[0].silence == 2500ms);
  CHECK(all<events::LeaseNearlyMissed>(late)[0].lease == 3s);
  // A second answer from the same delay is not reported again.
  const auto with_it = stage.heard(t0 + 3500ms, link::Heartbeat{.sent = 3s});
  CHECK(all<events::LeaseNearlyMissed>(with_it).empty());
}

// The node connects again, and the coordinator answers its first heartbeat.
Agent::Actions answered_on_another_link(Stage& stage, TimePoint now) {
  stage.agent.handle(now, agent::LinkUp{"10.0.0.2"});
  const auto sent = std::chrono::duration_cast<link::AgentTime>(now.time_since_epoch());
  return stage.heard(now + 100ms, link::Heartbeat{.sent = sent});
}

TEST_CASE("a seal that arrives later than the lease starts nothing before it is confirmed") {
  Stage stage;
  stage.join();
  const auto late = stage.heard(t0 + 3200ms, seat());
  CHECK(work<supervisor::Spawn>(late).empty());
  CHECK(said<link::Heartbeat>(stage.agent.advance(t0 + 3200ms)).size() == 1);
  SUBCASE("the seat is kept, and messages after the seal are handled after it") {
    CHECK(work<supervisor::Spawn>(stage.heard(t0 + 3210ms, link::Save{})).empty());
    const auto confirmed = stage.heard(t0 + 3300ms, link::Heartbeat{.sent = 3200ms});
    CHECK(work<supervisor::Spawn>(confirmed).size() == 1);
  }
  SUBCASE("the seat is lost, and the node asks for a new one") {
    stage.agent.handle(t0 + 3300ms, agent::LinkDown{"closed by the peer"});
    CHECK(work<supervisor::Spawn>(answered_on_another_link(stage, t0 + 3400ms)).empty());
  }
  SUBCASE("a master that keeps sending without an answer is abandoned") {
    Agent::Actions actions;
    for (int i = 0; i < 100; ++i) Stage::append(actions, stage.heard(t0 + 3210ms, link::Save{}));
    CHECK(all<agent::HangUp>(actions).size() == 1);
    CHECK(work<supervisor::Spawn>(answered_on_another_link(stage, t0 + 3400ms)).empty());
  }
}

TEST_CASE("a late seal of a broken link is not kept for the next link") {
  Stage stage;
  stage.join();
  stage.agent.handle(t0 + 3100ms, agent::LinkDown{"closed by the peer"});
  CHECK(work<supervisor::Spawn>(stage.heard(t0 + 3200ms, seat())).empty());
  CHECK(work<supervisor::Spawn>(answered_on_another_link(stage, t0 + 3300ms)).empty());
}

TEST_CASE("an agent that was suspended for longer than its lease kills its workers when it wakes") {
  Stage stage;
  stage.run();
  stage.answered(t0 + 1s);
  // Its watchdog was awake, and reports first.
  const auto awake = stage.agent.handle(t0 + 60s, agent::Fenced{});
  REQUIRE(work<supervisor::SignalGroup>(awake).size() == 1);
  CHECK(work<supervisor::SignalGroup>(awake)[0].signal == SIGKILL);
  const auto last = stage.end_worker(t0 + 60s, {.signalled = true, .value = SIGKILL});
  CHECK(
      reason_of(last) ==
      "this node was suspended or got no CPU time for about 59 s, longer than its lease of 3 s; it "
      "has lost its place in the job");
}

TEST_CASE("a node that was suspended with its watchdog pauses its workers and asks for its seat") {
  Stage stage;
  stage.run();
  stage.answered(t0 + 1s);
  // The message that waits in the socket is older than the node's lease.
  const auto awake = stage.heard(t0 + 60s, link::Heartbeat{.sent = 2s});
  REQUIRE(work<supervisor::SignalGroup>(awake).size() == 1);
  CHECK(work<supervisor::SignalGroup>(awake)[0].signal == SIGSTOP);
  CHECK(stage.agent.next_deadline() == t0 + 60s);
  CHECK(said<link::Heartbeat>(stage.agent.advance(t0 + 60s)).size() == 1);
  CHECK(stage.agent.overdue_at() > t0 + 63s);
  SUBCASE("answered") {
    const auto answered = stage.heard(t0 + 61s, link::Heartbeat{.sent = 60s});
    CHECK(all<events::LeaseNearlyMissed>(answered).empty());
    REQUIRE(work<supervisor::SignalGroup>(answered).size() == 1);
    CHECK(work<supervisor::SignalGroup>(answered)[0].signal == SIGCONT);
    CHECK(work<supervisor::SignalGroup>(stage.agent.advance(t0 + 62s)).empty());
    CHECK(stage.agent.overdue_at() < t0 + 63s);
  }
  SUBCASE("not answered within another lease") {
    const auto late = stage.agent.advance(t0 + 63s);
    REQUIRE(work<supervisor::SignalGroup>(late).size() == 1);
    CHECK(work<supervisor::SignalGroup>(late)[0].signal == SIGKILL);
  }
  SUBCASE("refused: another node has it") {
    const auto refused = stage.heard(t0 + 61s, link::Refused{"it is lost"});
    REQUIRE(work<supervisor::SignalGroup>(refused).size() == 1);
    CHECK(work<supervisor::SignalGroup>(refused)[0].signal == SIGKILL);
  }
  SUBCASE("answered when its worker has ended well: no deadline stays in the past") {
    stage.end_worker(t0 + 60s, {});
    stage.agent.advance(t0 + 61s);
    for (const auto second : {61s, 62s, 63s, 64s}) {
      stage.heard(t0 + second, link::Heartbeat{.sent = second - 1s});
      stage.agent.advance(t0 + second);
    }
    CHECK(stage.agent.next_deadline() > t0 + 64s);
  }
  SUBCASE("not answered when its worker has ended well: it asks how the job ended") {
    stage.end_worker(t0 + 60s, {});
    CHECK(notes(stage.agent.advance(t0 + 61s)).empty());
    CHECK(notes(stage.agent.advance(t0 + 63s)).size() == 1);
    CHECK(stage.agent.next_deadline() > t0 + 63s);
  }
  SUBCASE("asked to drain: workers have to run to end in order") {
    const auto drains = stage.heard(t0 + 61s, link::Drain{first, "rank 0 on alpha failed"});
    REQUIRE(work<supervisor::SignalGroup>(drains).size() == 1);
    CHECK(work<supervisor::SignalGroup>(drains)[0].signal == SIGCONT);
    REQUIRE(work<supervisor::SignalMain>(drains).size() == 1);
    CHECK(work<supervisor::SignalMain>(drains)[0].signal == SIGTERM);
  }
}

TEST_CASE("a node that was suspended for almost a lease also asks for its seat") {
  Stage stage;
  stage.run();
  stage.answered(t0 + 1s);
  // The node's own lease is over, but the watchdog's deadline is not.
  const TimePoint awake = t0 + 1s + own_lease + 1ms;
  REQUIRE(awake < *stage.agent.overdue_at());
  const auto doubts = stage.agent.advance(awake);
  REQUIRE(notes<LogLevel::warning>(doubts).size() == 1);
  CHECK(notes<LogLevel::warning>(doubts)[0].sentence ==
        "this node was suspended: no response from the master for 2.8 s, with a lease of 3 s; its "
        "workers are paused until the master confirms this node's place in the job");
  REQUIRE(work<supervisor::SignalGroup>(doubts).size() == 1);
  CHECK(work<supervisor::SignalGroup>(doubts)[0].signal == SIGSTOP);
  SUBCASE("answered") {
    stage.answered(awake);
    CHECK(work<supervisor::SignalGroup>(stage.pass(awake + 1s)).empty());
  }
  SUBCASE("not answered within another lease") {
    CHECK(kills(stage.pass(awake + 3s)));
  }
}

TEST_CASE("a worker in its grace period is killed when the lease expires") {
  Stage stage;
  stage.run();
  stage.heard(t0, link::Drain{first, "rank 0 on alpha failed"});
  const auto gone = stage.pass(t0 + own_lease);
  REQUIRE(work<supervisor::SignalGroup>(gone).size() == 1);
  CHECK(work<supervisor::SignalGroup>(gone)[0].signal == SIGKILL);
}

TEST_CASE("workers have time to save while nothing listens at the master's address") {
  const auto refused = agent::LinkDown{.reason = "connection refused", .refused = true};
  Stage stage;
  stage.run();
  stage.agent.handle(t0 + 1s, agent::LinkDown{"connection reset"});
  SUBCASE("until a restarted master could give their ranks away") {
    stage.agent.handle(t0 + 2s, refused);
    const auto over = stage.pass(t0 + own_lease);
    CHECK(work<supervisor::SignalGroup>(over).empty());
    REQUIRE(work<supervisor::SignalMain>(over).size() == 1);
    CHECK(work<supervisor::SignalMain>(over)[0].signal == SIGTERM);
    CHECK(*stage.agent.overdue_at() > t0 + 4750ms);
    // Each refusal shows that no master listens yet.
    stage.agent.handle(t0 + 4s, refused);
    CHECK(work<supervisor::SignalGroup>(stage.agent.advance(t0 + 6749ms)).empty());
    const auto late = stage.agent.advance(t0 + 6750ms);
    REQUIRE(work<supervisor::SignalGroup>(late).size() == 1);
    CHECK(work<supervisor::SignalGroup>(late)[0].signal == SIGKILL);
  }
  SUBCASE("until a master answers at that address") {
    stage.agent.handle(t0 + 2s, refused);
    stage.pass(t0 + own_lease);
    stage.agent.handle(t0 + 3s, refused);
    CHECK(*stage.agent.next_deadline() <= t0 + 3100ms);
    const auto answered = stage.agent.handle(t0 + 3100ms, agent::LinkUp{"10.0.0.2"});
    REQUIRE(work<supervisor::SignalGroup>(answered).size() == 1);
    CHECK(work<supervisor::SignalGroup>(answered)[0].signal == SIGKILL);
    CHECK(said<link::Join>(answered).empty());
  }
  SUBCASE("but not when the master's machine is unreachable") {
    stage.agent.handle(t0 + 2s, refused);
    stage.agent.handle(t0 + 2500ms, agent::LinkDown{"no route to host"});
    const auto over = stage.pass(t0 + own_lease);
    REQUIRE(work<supervisor::SignalGroup>(over).size() == 1);
    CHECK(work<supervisor::SignalGroup>(over)[0].signal == SIGKILL);
  }
}

TEST_CASE("a node whose workers have saved does not dial its master more often than others") {
  const auto refused = agent::LinkDown{.reason = "connection refused", .refused = true};
  Config config = two_nodes();
  config.restarts.max = 1;
  Stage stage(false, config);
  stage.run();
  stage.agent.handle(t0 + 1s, agent::LinkDown{"connection reset"});
  stage.agent.handle(t0 + 2s, refused);
  stage.pass(t0 + own_lease);
  stage.end_worker(t0 + 3s, {});
  stage.agent.handle(t0 + 3s, refused);
  int dials = 0;
  for (auto due = stage.agent.next_deadline(); due && *due < t0 + 33s;
       due = stage.agent.next_deadline()) {
    if (all<agent::Dial>(stage.agent.advance(*due)).empty()) continue;
    ++dials;
    stage.agent.handle(*due, refused);
  }
  CHECK(dials > 5);
  CHECK(dials < 100);
}

TEST_CASE("a link that is back in time resumes if it is answered, and only then") {
  Stage stage;
  stage.run();
  stage.agent.handle(t0 + 1s, agent::LinkDown{"connection reset"});
  const auto resumed = stage.agent.handle(t0 + 2s, agent::LinkUp{"10.0.0.2"});
  CHECK(said<link::Join>(resumed)[0].sent == 2s);
  CHECK_FALSE(said<link::Join>(resumed)[0].idle);
  SUBCASE("answered") {
    stage.heard(t0 + 2s, link::Heartbeat{.sent = 2s});
    CHECK(work<supervisor::SignalGroup>(stage.pass(t0 + own_lease)).empty());
  }
  SUBCASE("not answered") {
    CHECK(work<supervisor::SignalGroup>(stage.pass(t0 + own_lease)).size() == 1);
  }
}

TEST_CASE("a running node that is rejected kills its workers") {
  Stage stage;
  stage.run();
  const auto refused = stage.heard(t0 + 1s, link::Refused{"round 1 does not go on here"});
  REQUIRE(work<supervisor::SignalGroup>(refused).size() == 1);
  CHECK(work<supervisor::SignalGroup>(refused)[0].signal == SIGKILL);
}

TEST_CASE("a drained node reports that it is idle when it reconnects") {
  Stage stage;
  stage.run();
  stage.heard(t0, link::Drain{first, "rank 0 on alpha failed"});
  stage.end_worker(t0, {.signalled = true, .value = SIGTERM});
  stage.agent.handle(t0 + 1s, agent::LinkDown{"connection reset"});
  const auto resumed = stage.agent.handle(t0 + 2s, agent::LinkUp{"10.0.0.2"});
  CHECK(said<link::Join>(resumed)[0].after == first);
  CHECK(said<link::Join>(resumed)[0].idle);
}

TEST_CASE("the coordinator's host has no lease, and may be suspended without limit") {
  Stage stage{true};
  stage.run();
  CHECK(work<supervisor::SignalGroup>(stage.agent.advance(t0 + 24h)).empty());
}

TEST_CASE("a fence exists while the seat can be lost, and moves with every answer") {
  Stage stage;
  CHECK_FALSE(stage.agent.overdue_at());
  stage.run();
  const TimePoint fence = *stage.agent.overdue_at();
  CHECK(fence > t0 + own_lease);
  CHECK(fence < t0 + 3s);
  stage.answered(t0 + 1s);
  CHECK(stage.agent.overdue_at() == fence + 1s);
  SUBCASE("a node that has lost its seat has no fence") {
    stage.heard(t0 + 1s, link::Refused{"round 1 does not go on here"});
  }
  SUBCASE("workers of a finished job have their grace, with or without a master") {
    stage.heard(t0 + 1s, link::Finish{.exit_code = 143, .reason = "asked to stop by SIGTERM"});
  }
  CHECK_FALSE(stage.agent.overdue_at());
  Stage host{true};
  host.run();
  CHECK_FALSE(host.agent.overdue_at());
}

TEST_CASE("a signal that does not ask to exit is forwarded to the workers, and stops nothing") {
  Stage stage;
  stage.run();
  const auto passed = stage.agent.handle(t0, agent::Signalled{SIGUSR1});
  REQUIRE(work<supervisor::SignalGroup>(passed).size() == 1);
  CHECK(work<supervisor::SignalGroup>(passed)[0].signal == SIGUSR1);
  CHECK(said<link::Leave>(passed).empty());
  // Without workers it goes nowhere.
  Stage early;
  CHECK(early.agent.handle(t0, agent::Signalled{SIGUSR2}).empty());
}

TEST_CASE("a failure is reported with the time it was noticed, before drained") {
  Stage stage;
  stage.run();
  const auto ended = stage.end_worker(t0 + 1500ms, {.value = 3});
  REQUIRE(said<link::Failed>(ended).size() == 1);
  CHECK(said<link::Failed>(ended)[0].noticed == 1500ms);
  CHECK(said<link::Drained>(ended).size() == 1);
}

TEST_CASE("a worker that failed by itself while it was being stopped is reported too") {
  Stage stage;
  stage.run();
  stage.heard(t0, link::Drain{first, "rank 0 on alpha failed"});
  const auto ended = stage.end_worker(t0 + 1s, {.signalled = true, .value = SIGSEGV});
  REQUIRE(said<link::Failed>(ended).size() == 1);
  CHECK(said<link::Failed>(ended)[0].failure.status == link::ExitStatus{true, SIGSEGV});
  REQUIRE(said<link::Drained>(ended).size() == 1);
  // In this order, or the coordinator would count it for another round.
  const auto position = [&ended](auto wanted) {
    return std::find_if(ended.begin(), ended.end(), [&](const agent::Action& action) {
      const auto* say = std::get_if<agent::Say>(&action);
      return say != nullptr && std::holds_alternative<decltype(wanted)>(say->message);
    });
  };
  CHECK(position(link::Failed{}) < position(link::Drained{}));
}

TEST_CASE(
    "a master whose address belongs to another machine warns, probes that address, and continues") {
  Config config = two_nodes();
  config.node_rank = 0;
  Stage stage{true, config};
  const auto up = stage.agent.handle(t0, agent::LinkUp{"10.0.0.2", {"10.0.0.1"}});
  REQUIRE(notes<LogLevel::warning>(up).size() == 1);
  CHECK(notes<LogLevel::warning>(up)[0].sentence.find(
            "the master's address 10.0.0.1 is not an address of this machine") == 0);
  CHECK(said<link::Join>(up).size() == 1);
  REQUIRE(stage.agent.next_deadline() == t0);
  const auto asks = all<agent::AskWhoHosts>(stage.agent.advance(t0));
  REQUIRE(asks.size() == 1);
  CHECK(asks[0].addresses == std::vector<std::string>{"10.0.0.1"});
  CHECK(asks[0].question == link::WhoHosts{.job = "j", .host = "beta", .pid = 42});
  SUBCASE("the probe reached this master by another route") {
    const auto answered = stage.agent.handle(
        t0, agent::Answered{{.job = "j", .host = "beta", .pid = 42, .itself = true}});
    CHECK(answered.empty());
    CHECK(all<agent::AskWhoHosts>(stage.agent.advance(t0 + 5s)).empty());
  }
  SUBCASE("another master of the same job answers") {
    const auto answered =
        stage.agent.handle(t0, agent::Answered{{.job = "j", .host = "alpha", .pid = 7}});
    REQUIRE(all<events::JobEnded>(answered).size() == 1);
    CHECK(all<events::JobEnded>(answered)[0].exit_code == 1);
    CHECK(all<events::JobEnded>(answered)[0].reason.find("has two masters") != std::string::npos);
  }
  SUBCASE("no master answers: it probes again until the round begins") {
    CHECK(all<agent::AskWhoHosts>(stage.agent.advance(t0 + 5s)).size() == 1);
    stage.heard(t0 + 6s, seat());
    CHECK(all<agent::AskWhoHosts>(stage.agent.advance(t0 + 10s)).empty());
  }
}

TEST_CASE("a master on loopback warns while it waits for nodes, and when it gives up") {
  Config config = two_nodes();
  config.endpoint.host = "127.0.0.1";
  Stage stage{true, config};
  const auto up = stage.agent.handle(t0, agent::LinkUp{"127.0.0.1", {"127.0.0.1"}});
  CHECK(notes<LogLevel::warning>(up).empty());
  const auto waited = notes<LogLevel::warning>(stage.agent.advance(t0 + 2s));
  REQUIRE(waited.size() == 1);
  CHECK(waited[0].sentence.find("127.0.0.1 is only reachable from this machine") == 0);
  const auto last = all<events::JobEnded>(stage.agent.advance(t0 + 600s));
  REQUIRE(last.size() == 1);
  CHECK(last[0].reason.find(waited[0].sentence) != std::string::npos);
}

TEST_CASE("a master that cannot resolve its own name warns and resolves again") {
  Stage stage{true};
  CHECK(stage.agent.handle(t0, agent::LinkDown{"Host not found"}).empty());
  const auto waiting = all<events::Waiting>(stage.agent.advance(t0 + 2s));
  REQUIRE(waiting.size() == 1);
  CHECK(waiting[0].reason.find("cannot resolve \"10.0.0.1\" (Host not found)") == 0);
  CHECK(said<link::Join>(stage.agent.handle(t0 + 3s, agent::LinkUp{"10.0.0.2"})).size() == 1);
}

TEST_CASE("a node refused at its own address reports that no coordinator runs on this machine") {
  Stage stage;
  stage.agent.handle(t0, agent::LinkDown{"connection refused", {"10.0.0.2"}, true});
  const auto own = all<events::Waiting>(stage.agent.advance(t0 + 2s));
  REQUIRE(own.size() == 1);
  CHECK(own[0].reason.find("is this machine (--node-rank=1)") != std::string::npos);
  stage.agent.handle(t0 + 2s, agent::LinkDown{"no answer within 5 s", {"10.0.0.1"}});
  const auto other = all<events::Waiting>(stage.agent.advance(t0 + 7s));
  REQUIRE(other.size() == 1);
  CHECK(other[0].reason ==
        "no response from the master at 10.0.0.1:29500: no answer within 5 s; 593 s left");
}

}  // namespace agent_link_test
