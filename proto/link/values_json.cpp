// SPDX-License-Identifier: BSD-3-Clause
#include "proto/link/values_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "proto/link/bounds.h"
#include "proto/text.h"
#include "proto/worker_contract.h"

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
      if (!fits) return failure(fmt::format("the budget of {} is not a number", budget.cause));
      budget.max = value.get<int>();
    }
    budgets.push_back(std::move(budget));
  }
  return budgets;
}

using nlohmann::json;

namespace {

// Six digits are enough to show, and keep the message short.
json metrics_json(const std::vector<Metric>& metrics) {
  json object = json::object();
  for (const Metric& each : metrics) {
    const auto rounded =
        each.value ? exact_number<double>(fmt::format("{:.6g}", *each.value)) : std::nullopt;
    object[each.name] = rounded ? json(*rounded) : json();
  }
  return object;
}

Result<GpuUse> gpu_in(const json& numbers) {
  constexpr std::int64_t mib_max = figure_max >> 20;  // the bytes are at most figure_max
  constexpr std::array<std::int64_t, 4> most = {count_max, 100, mib_max, mib_max};
  std::array<std::int64_t, 4> gpu{};
  for (std::size_t i = 0; i < gpu.size(); ++i) {
    const json& number = numbers.at(i);
    const bool is_valid =
        number.is_number_integer() && number >= (i == 1 ? -1 : 0) && number <= most[i];
    if (!is_valid) return failure("gpu is not four whole numbers, or out of range");
    gpu[i] = number.get<std::int64_t>();
  }
  return GpuUse{.index = static_cast<int>(gpu[0]),
                .percent = static_cast<int>(gpu[1]),
                .used_mib = gpu[2],
                .total_mib = gpu[3]};
}

// What follows the numbers of a row.
Result<void> read_extras(const json& row, WorkerStats& worker) {
  const std::size_t at = FiguresRow{}.size();
  if (row.size() < at + 2) return {};
  const json& total = row.at(at);
  if (!total.is_number_integer() || total < -1 || total > figure_max) {
    return failure("total is not a whole number, or out of range");
  }
  if (total >= 0) worker.total = total.get<std::int64_t>();
  for (const auto& [name, value] : row.at(at + 1).get_ref<const json::object_t&>()) {
    const bool is_valid = is_metric_name(name) && (value.is_null() || value.is_number());
    if (!is_valid || worker.metrics.size() == CPPRUN_HEARTBEAT_METRICS) {
      return failure("metrics are invalid, or too many");
    }
    worker.metrics.push_back(
        {name, value.is_null() ? std::nullopt : std::optional(value.get<double>())});
  }
  if (row.size() > at + 2) {
    worker.last_line =
        plain_line(row.at(at + 2).get_ref<const std::string&>(), last_line_bytes_max);
  }
  if (row.size() > at + 3) {
    const auto gpu = gpu_in(row.at(at + 3));
    if (!gpu) return tl::unexpected<Error>(gpu.error());
    worker.gpu = *gpu;
  }
  return {};
}

}  // namespace

json rows_of(const std::vector<WorkerStats>& workers) {
  json rows = json::array();
  FiguresRow before{};
  for (const WorkerStats& each : workers) {
    const FiguresRow row = row_of(each);
    json differences = json::array();
    for (std::size_t i = 0; i < row.size(); ++i) differences.push_back(row[i] - before[i]);
    const bool has_line = each.gpu || !each.last_line.empty();
    if (has_line || each.total || !each.metrics.empty()) {
      differences.push_back(each.total ? std::clamp<std::int64_t>(*each.total, 0, figure_max) : -1);
      differences.push_back(metrics_json(each.metrics));
    }
    if (has_line) differences.push_back(each.last_line);
    if (each.gpu) {
      differences.push_back(
          {each.gpu->index, each.gpu->percent, each.gpu->used_mib, each.gpu->total_mib});
    }
    rows.push_back(std::move(differences));
    before = row;
  }
  return rows;
}

Result<std::vector<WorkerStats>> figures_in(const json& rows) {
  constexpr double most = 2.0 * figure_max;
  std::vector<WorkerStats> workers;
  FiguresRow row{};
  for (const json& differences : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const json& difference = differences.at(i);
      // The sum cannot overflow, since the previous row was checked.
      if (!difference.is_number_integer() || std::abs(difference.get<double>()) > most) {
        return failure(std::string(name_of_column(i)) + " is not a whole number, or out of range");
      }
      row[i] += difference.get<std::int64_t>();
    }
    auto figures = figures_of(row);
    if (!figures) return tl::unexpected<Error>(figures.error());
    if (auto extras = read_extras(differences, *figures); !extras) {
      return tl::unexpected<Error>(extras.error());
    }
    workers.push_back(*std::move(figures));
  }
  return workers;
}

namespace {

using Milliseconds = std::chrono::milliseconds;

json row_of(const NodeTime& time) {
  json row = json::array();
  for (const auto each : time)
    row.push_back(std::chrono::duration_cast<Milliseconds>(each).count());
  return row;
}

// Milliseconds, bounded so that any sum fits microseconds.
bool read(const json& value, NodeDuration& time) {
  if (!value.is_number_unsigned()) return false;
  const auto count = value.get<std::uint64_t>();
  if (count > static_cast<std::uint64_t>(Milliseconds{time_use_max}.count())) return false;
  time = Milliseconds{count};
  return true;
}

bool read(const json& row, NodeTime& time) {
  if (!row.is_array() || row.size() != account_count) return false;
  for (std::size_t i = 0; i < account_count; ++i) {
    if (!read(row.at(i), time[i])) return false;
  }
  return true;
}

nlohmann::ordered_json accounts_of(const NodeTime& time) {
  nlohmann::ordered_json object;
  for (std::size_t i = 0; i < account_count; ++i) {
    const std::string name{name_of(static_cast<Account>(i))};
    object[name] = std::chrono::duration<double>(time[i]).count();
  }
  return object;
}

}  // namespace

json time_use_json(const TimeUse& use) {
  json object = {{"wall", std::chrono::duration_cast<Milliseconds>(use.wall).count()},
                 {"nodes", row_of(use.nodes)},
                 {"lost", json::array()}};
  for (const LostTime& each : use.lost) {
    object["lost"].push_back({each.cause, each.host, each.count, row_of(each.time)});
  }
  return object;
}

nlohmann::ordered_json readable_json(const TimeUse& use) {
  nlohmann::ordered_json object;
  object["wall"] = std::chrono::duration<double>(use.wall).count();
  object["node_seconds"] = accounts_of(use.nodes);
  object["lost"] = json::array();
  for (const LostTime& each : use.lost) {
    nlohmann::ordered_json row;
    row["cause"] = each.cause;
    row["host"] = each.host;
    row["count"] = each.count;
    row["node_seconds"] = accounts_of(each.time);
    object["lost"].push_back(std::move(row));
  }
  object["text"] = to_text(use);
  return object;
}

Result<TimeUse> time_use_of(const json& object) {
  TimeUse use;
  if (!read(object.at("wall"), use.wall)) return failure("the wall time is invalid");
  if (!read(object.at("nodes"), use.nodes)) return failure("the times of nodes are invalid");
  for (const json& row : object.at("lost")) {
    if (use.lost.size() >= bounds::causes_counted_max)
      return failure("too many causes of lost time");
    LostTime& lost = use.lost.emplace_back();
    lost.cause = plain_line(row.at(0).get<std::string>());
    lost.host = plain_line(row.at(1).get<std::string>());
    if (!row.at(2).is_number_unsigned()) return failure("a count is invalid");
    lost.count = row.at(2).get<std::size_t>();
    if (!read(row.at(3), lost.time)) return failure("a lost time is invalid");
  }
  return use;
}

}  // namespace cpprun::link
