// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/environment.h"

#include <doctest/doctest.h>

#include <cstdlib>

TEST_CASE("the current environment of the process is read") {
  REQUIRE(::setenv("CPPRUN_TEST_VARIABLE", "a=b", 1) == 0);
  CHECK(cpprun::read_environment().at("CPPRUN_TEST_VARIABLE") == "a=b");
  REQUIRE(::unsetenv("CPPRUN_TEST_VARIABLE") == 0);
  CHECK(cpprun::read_environment().count("CPPRUN_TEST_VARIABLE") == 0);
}
