// SPDX-License-Identifier: BSD-3-Clause
// A node that reaches its master from several addresses: workers are admitted from each of them,
// but not from an address that was only claimed.

#include <doctest/doctest.h>

#include <algorithm>

#include "proto/link/bounds.h"
#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/job/bounds.h"
#include "rendezvous/store/bounds.h"

namespace further_peers_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
constexpr LinkId link_of_node{1};
constexpr LinkId another_link{100};
const link::WhoHosts node{.job = "j", .host = "alpha", .pid = 1, .agent = 9, .joins = true};

Coordinator host() {
  return Coordinator{
      {.only = JobTerms{.id = "j", .restarts = {.max = 1}}, .options = {.lease = 3s}}};
}

// Sends that message from that address; returns the coordinator's actions.
Coordinator::Actions speak(Coordinator& coordinator, const link::WhoHosts& who,
                           const std::string& peer, LinkId link = another_link) {
  coordinator.handle(t0, Coordinator::Opened{{.link = link, .peer = peer}});
  return coordinator.handle(t0, Coordinator::Said{link, who});
}

// The node joins from 10.0.0.1 with a claim, as the only node.
Coordinator::Actions join(Coordinator& coordinator, std::uint32_t agent = node.agent) {
  coordinator.handle(t0, Coordinator::Opened{{.link = link_of_node, .peer = "10.0.0.1"}});
  return coordinator.handle(t0,
                            Coordinator::Said{link_of_node, link::Join{.job = "j",
                                                                       .host = "alpha",
                                                                       .pid = 1,
                                                                       .agent = agent,
                                                                       .restarts = {.max = 1},
                                                                       .addresses = {"fd00::7"}}});
}

std::string hung_up(const Coordinator::Actions& actions) {
  for (const auto& action : actions) {
    const auto* hang_up = std::get_if<coordinator::HangUp>(&action);
    if (hang_up != nullptr && hang_up->link == another_link) return hang_up->reason;
  }
  return "";
}

}  // namespace

TEST_CASE("an address introduced before the join is admitted when the round is sealed") {
  Coordinator coordinator = host();
  const auto answer = speak(coordinator, node, "fd00::7");
  REQUIRE(answer.size() == 1);
  CHECK(std::get<link::Hosts>(std::get<coordinator::Say>(answer[0]).message).itself);
  CHECK_FALSE(coordinator.admit("j", "fd00::7").has_value());
  // Its other link is of no further use.
  CHECK(hung_up(join(coordinator)) == "the agent has joined");
  CHECK(coordinator.admit("j", "fd00::7").has_value());
  CHECK(coordinator.admit("j", "10.0.0.1").has_value());
  CHECK_FALSE(coordinator.admit("j", "fd00::8").has_value());
}

TEST_CASE("an address introduced after the join is admitted at once") {
  Coordinator coordinator = host();
  join(coordinator);
  CHECK_FALSE(coordinator.admit("j", "fd00::7").has_value());
  CHECK_FALSE(coordinator.admit("j", "127.0.0.1").has_value());
  speak(coordinator, node, "fd00::7");
  CHECK(coordinator.admit("j", "fd00::7").has_value());
  CHECK_FALSE(coordinator.admit("j", "127.0.0.1").has_value());
  speak(coordinator, node, "::1", LinkId{101});
  CHECK(coordinator.admit("j", "127.0.0.1").has_value());
}

TEST_CASE("an introduction counts while its link exists, and only once") {
  Coordinator coordinator = host();
  speak(coordinator, node, "fd00::7");
  SUBCASE("the link ends") {
    coordinator.handle(t0, Coordinator::Closed{another_link, "it went"});
  }
  SUBCASE("no node joins for it") {
    coordinator.advance(t0 + bounds::first_message_timeout - bounds::coordinator_nap);
    coordinator.advance(t0 + bounds::first_message_timeout - bounds::coordinator_blink);
    CHECK(hung_up(coordinator.advance(t0 + bounds::first_message_timeout)) ==
          "no message after the greeting");
  }
  SUBCASE("the agent introduces itself again") {
    CHECK(hung_up(coordinator.handle(t0, Coordinator::Said{another_link, node})) ==
          "introduced itself twice");
    coordinator.handle(t0, Coordinator::Closed{another_link, "hung up"});
  }
  join(coordinator);
  CHECK(coordinator.admit("j", "10.0.0.1").has_value());
  CHECK_FALSE(coordinator.admit("j", "fd00::7").has_value());
}

TEST_CASE("a client without the agent's number is not taken for the agent") {
  link::WhoHosts unidentified = node;
  SUBCASE("another number") {
    unidentified.agent = 10;
  }
  SUBCASE("none") {
    unidentified.agent = 0;
  }
  SUBCASE("another process") {
    unidentified.pid = 2;
  }
  SUBCASE("another job") {
    unidentified.job = "k";
  }
  for (const bool joins_first : {true, false}) {
    Coordinator coordinator = host();
    if (joins_first) join(coordinator);
    speak(coordinator, unidentified, "10.0.0.9");
    if (!joins_first) join(coordinator);
    CHECK(coordinator.admit("j", "10.0.0.1").has_value());
    CHECK_FALSE(coordinator.admit("j", "10.0.0.9").has_value());
  }
}

TEST_CASE("an agent without a number cannot introduce itself") {
  link::WhoHosts unnumbered = node;
  unnumbered.agent = 0;
  for (const bool joins_first : {true, false}) {
    Coordinator coordinator = host();
    if (joins_first) join(coordinator, 0);
    speak(coordinator, unnumbered, "10.0.0.9");
    if (!joins_first) join(coordinator, 0);
    CHECK_FALSE(coordinator.admit("j", "10.0.0.9").has_value());
  }
}

TEST_CASE("a node has a limited number of addresses, which lose access when its round ends") {
  Coordinator coordinator = host();
  join(coordinator);
  const auto nth = [](std::size_t n) { return "fd00::" + std::to_string(n); };
  for (std::size_t n = 1; n <= bounds::node_addresses_max + 1; ++n) {
    speak(coordinator, node, nth(n), LinkId{100 + n});
  }
  CHECK(coordinator.admit("j", nth(bounds::node_addresses_max)).has_value());
  CHECK_FALSE(coordinator.admit("j", nth(bounds::node_addresses_max + 1)).has_value());
  coordinator.handle(t0,
                     Coordinator::Said{link_of_node, link::Leave{.signal = 15, .reason = "asked"}});
  CHECK(coordinator.admit("j", nth(1)).has_value());
  coordinator.handle(t0, Coordinator::Said{link_of_node, link::Drained{RoundNumber{1}}});
  CHECK_FALSE(coordinator.admit("j", nth(1)).has_value());
}

}  // namespace further_peers_test
