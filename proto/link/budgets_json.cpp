// SPDX-License-Identifier: BSD-3-Clause
#include "proto/link/budgets_json.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "proto/plain_text.h"

namespace cpprun::link {

namespace {

constexpr int count_max = std::numeric_limits<int>::max();

}  // namespace

nlohmann::json budgets_json(const std::vector<CauseBudget>& budgets) {
  nlohmann::json object = nlohmann::json::object();
  for (const CauseBudget& each : budgets) {
    object[each.cause] = each.max ? nlohmann::json(*each.max) : nlohmann::json(nullptr);
  }
  return object;
}

Result<std::vector<CauseBudget>> budgets_of(const nlohmann::json& object) {
  std::vector<CauseBudget> budgets;
  for (const auto& [cause, value] : object.get_ref<const nlohmann::json::object_t&>()) {
    CauseBudget budget{.cause = plain_line(cause)};
    if (!value.is_null()) {
      const bool fits = value.is_number_integer() && value >= 0 && value <= count_max;
      if (!fits) return failure(fmt::format("the budget of {} is no number", budget.cause));
      budget.max = value.get<int>();
    }
    budgets.push_back(std::move(budget));
  }
  return budgets;
}

}  // namespace cpprun::link
