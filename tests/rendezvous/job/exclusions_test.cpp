// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/exclusions.h"

#include <doctest/doctest.h>

#include "rendezvous/job/operator_command.h"

namespace exclusions_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
const link::Join alpha{.job = "j", .host = "alpha", .addresses = {"fd00::1"}};

}  // namespace

TEST_CASE("a host is matched by its name and by each of its addresses") {
  for (const char* name : {"alpha", "10.0.0.1", "fd00::1"}) {
    CAPTURE(name);
    Exclusions exclusions;
    REQUIRE(exclusions.exclude(t0, name, {}, "a test"));
    CHECK(exclusions.objection(t0, alpha, "10.0.0.1"));
    CHECK_FALSE(exclusions.objection(t0, {.host = "beta"}, "10.0.0.2"));
  }
}

TEST_CASE("an exclusion ends when its time is over or the host is included") {
  Exclusions exclusions;
  REQUIRE(exclusions.exclude(t0, "alpha", t0 + 10s, "a test"));
  CHECK(exclusions.objection(t0 + 8500ms, alpha, "") == "alpha is excluded for 2 s more: a test");
  CHECK_FALSE(exclusions.objection(t0 + 10s, alpha, ""));
  CHECK_FALSE(exclusions.include(t0 + 10s, "alpha"));
  REQUIRE(exclusions.exclude(t0, "alpha", {}, "for ever"));
  CHECK(exclusions.objection(t0 + 9999h, alpha, "") ==
        "alpha is excluded until the job is over: for ever");
  CHECK(exclusions.include(t0, "alpha"));
  CHECK_FALSE(exclusions.objection(t0, alpha, ""));
}

TEST_CASE("the latest exclusion of a host counts, and the list is sorted by name") {
  Exclusions exclusions;
  REQUIRE(exclusions.exclude(t0, "beta", {}, ""));
  REQUIRE(exclusions.exclude(t0, "alpha", {}, "first"));
  REQUIRE(exclusions.exclude(t0, "alpha", t0 + 1s, "second"));
  CHECK(exclusions.list(t0) == "alpha, beta");
  CHECK(exclusions.list(t0 + 1s) == "beta");
}

TEST_CASE("the number of exclusions is limited, and the limit is reported") {
  Exclusions exclusions;
  for (std::size_t i = 0; i < bounds::exclusions_max; ++i) {
    REQUIRE(exclusions.exclude(t0, "host" + std::to_string(i), t0 + 1s, ""));
  }
  CHECK(exclusions.exclude(t0, "alpha", {}, "").error().reason.find("the maximum") !=
        std::string::npos);
  CHECK(exclusions.exclude(t0, "host7", {}, ""));
  CHECK(exclusions.exclude(t0 + 1s, "alpha", {}, ""));
}

}  // namespace exclusions_test
