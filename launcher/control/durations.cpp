// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/durations.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <limits>

#include "proto/text.h"

namespace cpprun {

namespace {

constexpr std::int64_t minute = 60;
constexpr std::int64_t hour = 60 * minute;
constexpr std::int64_t day = 24 * hour;
constexpr std::int64_t seconds_max = 366 * day;

std::int64_t seconds_of(char unit) {
  if (unit == 's') return 1;
  if (unit == 'm') return minute;
  if (unit == 'h') return hour;
  return unit == 'd' ? day : 0;
}

}  // namespace

Result<std::int64_t> parse_duration(std::string_view text) {
  const auto wrong = [text] {
    return failure(fmt::format("\"{}\" is no length of time: write 90s, 45m, 2h, 1h30m or 2d",
                               plain_line(text)));
  };
  std::int64_t total = 0;
  std::int64_t unit_before = std::numeric_limits<std::int64_t>::max();
  auto rest = text;
  while (!rest.empty()) {
    std::size_t digits = 0;
    while (digits < rest.size() && std::isdigit(static_cast<unsigned char>(rest[digits])) != 0) {
      ++digits;
    }
    const auto number = exact_number<std::int64_t>(rest.substr(0, digits));
    if (!number || *number > seconds_max) return wrong();
    rest.remove_prefix(digits);
    // The last one needs no unit where it is alone: then it is seconds.
    const bool is_bare = rest.empty() && total == 0;
    const std::int64_t unit = is_bare ? 1 : seconds_of(rest.empty() ? '?' : rest.front());
    if (unit == 0 || unit >= unit_before) return wrong();
    if (!rest.empty()) rest.remove_prefix(1);
    unit_before = unit;
    total += *number * unit;
  }
  if (total < 1 || total > seconds_max) return wrong();
  return total;
}

std::string duration_text(double seconds) {
  if (!(seconds >= 0)) return "0 s";
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::min(seconds, 1e15));
  if (whole < minute) return fmt::format("{} s", whole);
  if (whole < hour) return fmt::format("{} min", whole / minute);
  if (whole < day) return fmt::format("{} h {} min", whole / hour, whole % hour / minute);
  return fmt::format("{} d {} h", whole / day, whole % day / hour);
}

}  // namespace cpprun
