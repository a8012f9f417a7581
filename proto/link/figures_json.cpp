// SPDX-License-Identifier: BSD-3-Clause
#include "proto/link/figures_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace cpprun::link {

using nlohmann::json;

json rows_of(const std::vector<WorkerFigures>& workers) {
  json rows = json::array();
  FiguresRow before{};
  for (const WorkerFigures& each : workers) {
    const FiguresRow row = row_of(each);
    json differences = json::array();
    for (std::size_t i = 0; i < row.size(); ++i) differences.push_back(row[i] - before[i]);
    rows.push_back(std::move(differences));
    before = row;
  }
  return rows;
}

Result<std::vector<WorkerFigures>> figures_in(const json& rows) {
  constexpr double most = 2.0 * figure_max;
  std::vector<WorkerFigures> workers;
  FiguresRow row{};
  for (const json& differences : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const json& difference = differences.at(i);
      // Both are small enough for their sum; the row before has been looked at.
      if (!difference.is_number_integer() || std::abs(difference.get<double>()) > most) {
        return failure(std::string(name_of_column(i)) + " is not a whole number that fits there");
      }
      row[i] += difference.get<std::int64_t>();
    }
    auto figures = figures_of(row);
    if (!figures) return tl::unexpected<Error>(figures.error());
    workers.push_back(*figures);
  }
  return workers;
}

}  // namespace cpprun::link
