// SPDX-License-Identifier: BSD-3-Clause
#include "proto/secure/secret.h"

#include <doctest/doctest.h>

namespace secret_place_test {

using namespace cpprun;

TEST_CASE("the flag takes precedence over the variable, and the variable over the user's default") {
  const Environment environment{{"CPPRUN_SECRET_FILE", "/b"}, {"HOME", "/users/u"}};
  CHECK(secret_path("a", environment) == SecretPath{.path = "a", .was_named = true});
  CHECK(secret_path("", environment) == SecretPath{.path = "/b", .was_named = true});
  CHECK(secret_path("", {{"CPPRUN_SECRET_FILE", ""}, {"HOME", "/users/u"}}) ==
        SecretPath{.path = "/users/u/.config/cpprun/secret", .was_named = false});
}

TEST_CASE("the user's default secret is in the configuration directory") {
  CHECK(own_secret_path({{"HOME", "/users/u"}}) == "/users/u/.config/cpprun/secret");
  CHECK(own_secret_path({{"HOME", "/users/u"}, {"XDG_CONFIG_HOME", "/etc/u"}}) ==
        "/etc/u/cpprun/secret");
  CHECK(own_secret_path({{"HOME", "/users/u"}, {"XDG_CONFIG_HOME", ""}}) ==
        "/users/u/.config/cpprun/secret");
}

TEST_CASE("the current directory is not searched") {
  CHECK(own_secret_path({{"HOME", "/users/u"}, {"XDG_CONFIG_HOME", "settings"}}) ==
        "/users/u/.config/cpprun/secret");
  CHECK(own_secret_path({{"HOME", "u"}}).empty());
  CHECK(own_secret_path({{"HOME", ""}}).empty());
  CHECK(secret_path("", {}) == SecretPath{});
}

}  // namespace secret_place_test
