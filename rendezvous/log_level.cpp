// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/log_level.h"

#include <fmt/format.h>

#include <array>
#include <chrono>

namespace cpprun {
namespace {

constexpr std::array levels{LogLevel::error, LogLevel::warning, LogLevel::info, LogLevel::debug};

}  // namespace

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::error:
      return "error";
    case LogLevel::warning:
      return "warning";
    case LogLevel::info:
      return "info";
    case LogLevel::debug:
      break;
  }
  return "debug";
}

std::optional<LogLevel> log_level_of(std::string_view name) {
  for (const LogLevel level : levels) {
    if (name_of(level) == name) return level;
  }
  return std::nullopt;
}

std::string log_time(WallTime time) {
  using namespace std::chrono;
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(floor<milliseconds>(time - day));
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z ", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

}  // namespace cpprun
