// SPDX-License-Identifier: BSD-3-Clause
#include "proto/restart_rules.h"

#include <doctest/doctest.h>

#include <set>

namespace restart_rules_test {

using namespace cpprun;
using namespace std::chrono_literals;

TEST_CASE("a cause uses the budget of its own name, of its group, or none") {
  const RestartRules rules{.max = 3, .budgets = {{"hang", 1}, {"node", {}}, {"hung", 7}}};
  REQUIRE(rules.budget_for("peer_silent") != nullptr);
  CHECK(rules.budget_for("peer_silent")->cause == "hang");
  CHECK(rules.budget_for("hung")->max == 7);
  CHECK(rules.budget_for("node_lost")->max == std::nullopt);
  CHECK(rules.budget_for("out_of_memory") == nullptr);
  // Many failures have an unknown cause.
  CHECK(rules.budget_for("") == nullptr);
}

TEST_CASE("no cause is in two groups, and no group has the name of a cause") {
  std::set<std::string_view> seen;
  for (const CauseGroup& group : cause_groups()) {
    CHECK(seen.insert(group.name).second);
    for (const auto cause : group.causes) {
      if (!cause.empty()) CHECK(seen.insert(cause).second);
    }
  }
}

TEST_CASE("a job may restart if anything can be followed by another round") {
  CHECK_FALSE(RestartRules{}.may_restart());
  CHECK_FALSE(RestartRules{.budgets = {{"hang", 0}}}.may_restart());
  CHECK(RestartRules{.max = 1}.may_restart());
  CHECK(RestartRules{.budgets = {{"node", {}}}}.may_restart());
  CHECK(RestartRules{.free_codes = {75}}.may_restart());
}

TEST_CASE("the longest delay is five minutes unless a longer one is requested") {
  CHECK(RestartRules{}.pause_max() == 0s);
  CHECK(RestartRules{.backoff = 2s}.pause_max() == 5min);
  CHECK(RestartRules{.backoff = 1h}.pause_max() == 1h);
}

TEST_CASE("the rules are printed as the flags that set them") {
  CHECK(to_text(RestartRules{}) == "--max-restarts=0");
  CHECK(to_text({.max = 3,
                 .budgets = {{"hang", 1}, {"node", {}}},
                 .backoff = 500ms,
                 .window = 1h,
                 .final_codes = {-11, 2},
                 .free_codes = {75},
                 .fruitless_max = 4,
                 .host_limit = {3, 600s},
                 .scope = RestartScope::worker,
                 .reconfigures = true}) ==
        "--max-restarts=3,hang=1,node=unlimited --restart-backoff=0.5 --restart-window=3600 "
        "--no-restart-codes=-11,2 --free-restart-codes=75 --max-no-progress=4 "
        "--max-host-failures=3/600 --restart-scope=worker --on-failure=reconfigure");
}

}  // namespace restart_rules_test
