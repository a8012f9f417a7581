// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/config_file.h"

#include <doctest/doctest.h>

namespace rules_file_test {

using namespace cpprun;
using namespace std::chrono_literals;

TEST_CASE("a --config file is a policy, whatever else it sets") {
  const auto file = read_rules_file("job.toml",
                                    "nnodes = 2\nmax-restarts = '3,hang=1'\nmax_no_progress = 2\n"
                                    "max-host-failures = '3/600'\nfree-restart-codes = 75\n");
  CHECK(file.diagnostics.empty());
  CHECK(file.rules == RestartRules{.max = 3,
                                   .budgets = {{"hang", 1}},
                                   .free_codes = {75},
                                   .fruitless_max = 2,
                                   .host_limit = {3, 600s}});
}

TEST_CASE("its errors are reported with their lines") {
  CHECK(read_rules_file("p", "max-restarts = '3,hnag=1'\n")
            .diagnostics.front()
            .starts_with("p:1: max-restarts=3,hnag=1: unknown cause \"hnag\""));
  CHECK(read_rules_file("p", "no-such-flag = 1\n").diagnostics.size() == 1);
}

}  // namespace rules_file_test
