// SPDX-License-Identifier: BSD-3-Clause
// A coordinator that a node hosts and that may lose its job to a standby publishes its lease before
// any node learns that it may vote: its process may be suspended in the next moment.

#include <doctest/doctest.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "tests/rendezvous/io/link_kit.h"

namespace lead_fence_test {

using namespace cpprun;
using namespace cpprun::test;

namespace {

link::Join elastic(int number) {
  auto join = node(number);
  join.node_rank.reset();
  join.nodes_min = 1;
  join.nodes_max = 3;
  join.can_lead = true;
  return join;
}

bool has_record(const LinkPeer& peer) {
  return std::ranges::any_of(peer.heard, [](const link::Message& message) {
    return std::holds_alternative<link::Record>(message);
  });
}

}  // namespace

TEST_CASE("a coordinator's lease is published before any node may vote") {
  asio::io_context context;
  std::optional<TimePoint> leads_until;
  std::vector<bool> was_known;  // when the node of this process learned of the standby
  const auto hear = [&](const link::Message& message) {
    if (std::holds_alternative<link::Standby>(message))
      was_known.push_back(leads_until.has_value());
  };
  CoordinatorServer server{context,
                           {.to_local_agent = hear,
                            .note = [](const Note&) {},
                            .done = nullptr,
                            .leads_until = [&](auto until) { leads_until = until; }}};
  const auto opened = server.open(
      {.host = loopback},
      {.only = JobTerms{.id = "j", .nodes_min = 1, .nodes_max = 3},
       .options = {.lease = 60s, .status_interval = 60s, .last_call = 60s, .standby = true}});
  REQUIRE(opened.has_value());
  server.hear_local_agent(elastic(0));
  std::vector<std::unique_ptr<LinkPeer>> guests;
  for (int number = 1; number < 3; ++number) {
    guests.push_back(std::make_unique<LinkPeer>(context, opened->port));
    LinkPeer& peer = *guests.back();
    peer.client.dial();
    run_until(context, [&] { return !peer.local.empty(); });
    peer.client.send(elastic(number));
  }
  run_until(context, [&] { return has_record(*guests[0]) || has_record(*guests[1]); });
  CHECK_FALSE(leads_until);
  LinkPeer& standby = has_record(*guests[0]) ? *guests[0] : *guests[1];
  standby.client.send(link::Stands{RoundNumber{1}, 4711});
  run_until(context, [&] { return !was_known.empty(); });
  CHECK(was_known == std::vector{true});
}

}  // namespace lead_fence_test
