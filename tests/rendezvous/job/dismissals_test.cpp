// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/exclusions.h"

#include <doctest/doctest.h>

#include "rendezvous/job/order.h"

using namespace cpprun;

TEST_CASE("an agent is known by host, pid and number") {
  const link::Join agent{.host = "alpha", .pid = 7, .agent = 99};
  Dismissals dismissals;
  CHECK(dismissals.find(agent) == nullptr);
  dismissals.add(agent, "why");
  REQUIRE(dismissals.find(agent) != nullptr);
  CHECK(*dismissals.find(agent) == "why");
  CHECK(dismissals.find({.host = "alpha", .pid = 8, .agent = 99}) == nullptr);
  CHECK(dismissals.find({.host = "alpha", .pid = 7, .agent = 98}) == nullptr);
  CHECK(dismissals.find({.host = "beta", .pid = 7, .agent = 99}) == nullptr);
}

TEST_CASE("the last ones are remembered") {
  Dismissals dismissals;
  for (std::size_t pid = 0; pid <= bounds::dismissals_max; ++pid) {
    dismissals.add({.host = "alpha", .pid = static_cast<int>(pid)}, "why");
  }
  CHECK(dismissals.find({.host = "alpha", .pid = 0}) == nullptr);
  CHECK(dismissals.find({.host = "alpha", .pid = 1}) != nullptr);
}
