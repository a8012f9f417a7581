// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/settings.h"

#include <doctest/doctest.h>

#include "tests/launcher/cli/cli_probe.h"

namespace secret_settings_test {

using namespace cpprun;
using namespace cpprun::probe;

TEST_CASE("a secret is set by the flag, by a variable, or by a line of the file") {
  CHECK(good({"x"}).secret_file.empty());
  CHECK(good({"--secret-file=a", "x"}).secret_file == "a");
  CHECK(good({"--secret_file", "a", "x"}).secret_file == "a");
  CHECK(good({"x"}, {{"CPPRUN_SECRET_FILE", "b"}}).secret_file == "b");
  CHECK(good({"--secret-file=a", "x"}, {{"CPPRUN_SECRET_FILE", "b"}}).secret_file == "a");
  CHECK(good({"x"}, {{"CPPRUN_SECRET_FILE", ""}}).secret_file.empty());
  CHECK(good({"--config=job.toml", "x"}, {}, {.text = "secret-file = \"c\"\n"}).secret_file == "c");
  CHECK_FALSE(diagnostics({"--secret-file=", "x"}).empty());
}

TEST_CASE("--insecure runs a job without a secret, and has no effect with one") {
  CHECK_FALSE(good({"x"}).insecure);
  CHECK(good({"--insecure", "x"}).insecure);
  CHECK(good({"--insecure", "--secret-file=a", "x"}).notes ==
        Words{"--insecure has no effect: --secret-file sets a secret"});
}

TEST_CASE("an administrator can require a secret") {
  CHECK_FALSE(good({"x"}).require_secret);
  CHECK(good({"x"}, {{"CPPRUN_REQUIRE_SECRET", "1"}}).require_secret);
  CHECK_FALSE(good({"x"}, {{"CPPRUN_REQUIRE_SECRET", "0"}}).require_secret);
  CHECK_FALSE(good({"x"}, {{"CPPRUN_REQUIRE_SECRET", ""}}).require_secret);
  CHECK(diagnostics({"x"}, {{"CPPRUN_REQUIRE_SECRET", "yes"}}) ==
        Words{"CPPRUN_REQUIRE_SECRET=yes is neither 1 (on) nor 0 (off)"});
}

TEST_CASE("--insecure where a secret is required is reported with the other errors") {
  CHECK(diagnostics({"--insecure", "--nnodes=0", "x"}, {{"CPPRUN_REQUIRE_SECRET", "1"}}) ==
        Words{"--nnodes=0 is neither a number of nodes, such as 2, nor a range, such as 2:4",
              "--insecure contradicts CPPRUN_REQUIRE_SECRET=1, which rejects a job without a "
              "secret\n  hint: use only one of them"});
}

TEST_CASE("the route to the store is chosen by the secret, or by the flag") {
  CHECK(good({"x"}).store == StoreWay::automatic);
  CHECK(good({"--store=local", "x"}).store == StoreWay::local);
  CHECK(good({"--store", "direct", "x"}).store == StoreWay::direct);
  CHECK(good({"x"}, {{"PET_STORE", "direct"}}).store == StoreWay::direct);
  CHECK(diagnostics({"--store=remote", "x"}) ==
        Words{"--store=remote is invalid; expected local or direct\n"
              "  hint: local: workers reach the store through their node's cpprun (default with a "
              "secret, several cpprunds or etcd); direct: workers connect to the master (default "
              "in all other cases)"});
}

}  // namespace secret_settings_test
