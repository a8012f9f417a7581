// SPDX-License-Identifier: BSD-3-Clause
#include "proto/environment.h"

#include <doctest/doctest.h>

namespace environment_test {

using namespace cpprun;

TEST_CASE("the environment is read unchanged, including empty values") {
  char plain[] = "A=1";
  char empty[] = "B=";
  char two[] = "C=x=y";
  char odd[] = "no equals";
  char* variables[] = {plain, empty, two, odd, nullptr};
  CHECK(environment_of(variables) == Environment{{"A", "1"}, {"B", ""}, {"C", "x=y"}});
}

TEST_CASE("a variable that is set but empty counts as set") {
  const Environment environment{{"EMPTY", ""}, {"FULL", "x"}};
  REQUIRE(find_variable(environment, "EMPTY") != nullptr);
  CHECK(find_variable(environment, "EMPTY")->empty());
  CHECK(find_variable(environment, "FUL") == nullptr);
  CHECK(environment_of(nullptr).empty());
}

}  // namespace environment_test
