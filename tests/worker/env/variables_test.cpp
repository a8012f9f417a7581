// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/context_parser.h"

#include <doctest/doctest.h>

using namespace cpprun;

TEST_CASE("a value that is not entirely a number in range is rejected") {
  const Environment environment = {{"A", "12"}, {"B", "12x"}, {"C", " 1"}, {"D", "99999999999"}};
  Variables variables(environment);
  CHECK(variables.number("A", 0, 100) == 12);
  CHECK(variables.diagnostics().empty());
  CHECK_FALSE(variables.number("B", 0, 100).has_value());
  CHECK_FALSE(variables.number("C", 0, 100).has_value());
  CHECK_FALSE(variables.number("D", 0, 100).has_value());
  CHECK(variables.diagnostics().size() == 3);
  CHECK(variables.diagnostics().front() == "B=12x is not a whole number from 0 to 100");
}

TEST_CASE("an empty variable counts as unset") {
  const Environment environment = {{"A", ""}};
  Variables variables(environment);
  CHECK_FALSE(variables.has("A"));
  CHECK(variables.number_or("A", 0, 9, 7) == 7);
  CHECK(variables.diagnostics().empty());
}

TEST_CASE("a required variable that is missing is an error with a hint") {
  const Environment environment;
  Variables variables(environment);
  CHECK(variables.required("RANK", 0, 9, "start it with cpprun") == 0);
  REQUIRE(variables.diagnostics().size() == 1);
  CHECK(variables.diagnostics().front() == "RANK is not set: start it with cpprun");
}
