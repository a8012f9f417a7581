// SPDX-License-Identifier: BSD-3-Clause
#include "proto/link/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "proto/bounds.h"

namespace cpprun {

std::string_view to_text(WorkerState state) {
  switch (state) {
    case WorkerState::starting:
      return "starting";
    case WorkerState::running:
      return "running";
    case WorkerState::ending:
      return "ending";
    case WorkerState::succeeded:
      return "succeeded";
    case WorkerState::failed:
      return "failed";
  }
  return "";
}

namespace link {

namespace {

using Milliseconds = std::chrono::milliseconds;

struct Column {
  std::string_view name;
  std::int64_t least;
  std::int64_t most;
};

constexpr std::int64_t nothing = -1;
constexpr std::int64_t ages_max = Milliseconds{bounds::agent_time_max}.count();
constexpr std::array<Column, std::tuple_size_v<FiguresRow>> columns = {{
    {"local_rank", 0, bounds::local_world_size_max - 1},
    {"pid", 0, std::numeric_limits<int>::max()},
    {"state", 0, static_cast<std::int64_t>(WorkerState::failed)},
    {"since", 0, ages_max},
    {"step", nothing, figure_max},
    {"rate", nothing, figure_max},
    {"samples", nothing, figure_max},
    {"checkpoint", nothing, figure_max},
    {"beat", nothing, ages_max},
    {"resident", nothing, figure_max},
    {"cpu", nothing, 100LL * bounds::cpus_max},
    {"words", nothing, ages_max},
}};

std::int64_t number_of(Duration age) {
  return std::chrono::duration_cast<Milliseconds>(age).count();
}
std::int64_t number_of(const std::optional<Duration>& age) {
  return age ? std::max<std::int64_t>(number_of(*age), 0) : nothing;
}
std::int64_t number_of(const std::optional<std::int64_t>& number) {
  return number ? std::max<std::int64_t>(*number, 0) : nothing;
}

std::optional<std::int64_t> known(std::int64_t number) {
  return number == nothing ? std::nullopt : std::optional(number);
}
std::optional<Duration> age(std::int64_t number) {
  return number == nothing ? std::nullopt : std::optional<Duration>(Milliseconds{number});
}

}  // namespace

FiguresRow row_of(const WorkerStats& figures) {
  FiguresRow row = {figures.local_rank.value,
                    figures.pid,
                    static_cast<std::int64_t>(figures.state),
                    number_of(figures.since),
                    number_of(figures.step),
                    number_of(figures.millisteps_per_second),
                    number_of(figures.samples),
                    number_of(figures.checkpoint_step),
                    number_of(figures.last_beat),
                    number_of(figures.resident_kib),
                    number_of(figures.cpu_percent),
                    number_of(figures.last_words)};
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = std::clamp(row[i], columns[i].least, columns[i].most);
  }
  return row;
}

std::string_view name_of_column(std::size_t index) {
  return columns.at(index).name;
}

Result<WorkerStats> figures_of(const FiguresRow& row) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row[i] >= columns[i].least && row[i] <= columns[i].most) continue;
    return failure(fmt::format("{}={}, which cannot be", columns[i].name, row[i]));
  }
  return WorkerStats{.local_rank = LocalRank{static_cast<int>(row[0])},
                     .pid = static_cast<int>(row[1]),
                     .state = static_cast<WorkerState>(row[2]),
                     .since = Milliseconds{row[3]},
                     .step = known(row[4]),
                     .millisteps_per_second = known(row[5]),
                     .samples = known(row[6]),
                     .checkpoint_step = known(row[7]),
                     .last_beat = age(row[8]),
                     .resident_kib = known(row[9]),
                     .cpu_percent = known(row[10]),
                     .last_words = age(row[11])};
}

}  // namespace link

}  // namespace cpprun
