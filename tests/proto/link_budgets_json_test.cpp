// SPDX-License-Identifier: BSD-3-Clause
#include "proto/link/values_json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace link_budgets_json_test {

using namespace cpprun;
using nlohmann::json;

TEST_CASE("budgets are encoded by their causes, and null means no limit") {
  const std::vector<CauseBudget> budgets = {{"hang", 1}, {"node", {}}};
  const json frame = link::budgets_json(budgets);
  CHECK(frame.dump() == R"({"hang":1,"node":null})");
  CHECK(link::budgets_of(frame) == budgets);
  CHECK(link::budgets_of(json::object())->empty());
}

TEST_CASE("a budget is a number from 0 that fits, and its name can be printed") {
  for (const char* const wrong : {R"({"hang":-1})", R"({"hang":"1"})", R"({"hang":1.5})",
                                  R"({"hang":4294967296})", R"({"hang":true})"}) {
    CAPTURE(wrong);
    const auto read = link::budgets_of(json::parse(wrong));
    REQUIRE_FALSE(read);
    CHECK(read.error().reason == "the budget of hang is not a number");
  }
  CHECK(link::budgets_of(json::parse(R"({"a\u001bb":1})"))->front().cause == "a?b");
  CHECK_THROWS(link::budgets_of(json::parse("[1]")));
}

}  // namespace link_budgets_json_test
