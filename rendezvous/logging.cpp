// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/logging.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "rendezvous/bounds.h"

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

std::string with_level(LogLevel level, std::string_view text) {
  constexpr std::array<std::string_view, 3> shown{"error: ", "warning: ", "note: "};
  const bool has_level =
      std::any_of(shown.begin(), shown.end(), [text](auto each) { return text.starts_with(each); });
  if (text.empty() || has_level || level > LogLevel::warning) return std::string(text);
  return fmt::format("{}: {}", name_of(level), text);
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

namespace {

std::string without_digits(std::string_view text) {
  std::string kind(text);
  std::erase_if(kind, [](char letter) { return letter >= '0' && letter <= '9'; });
  return kind;
}

}  // namespace

bool LogLimiter::pass(TimePoint now, std::string_view kind, bool is_reader_behind) {
  std::string key = without_digits(kind);
  auto found = windows_.find(key);
  if (found != windows_.end() && found->second.until <= now && found->second.held_back == 0) {
    windows_.erase(found);
    found = windows_.end();
  }
  if (found == windows_.end()) {
    // A peer that causes ever new reasons gets one shared window, which bounds the memory.
    if (windows_.size() >= bounds::log_kinds_max) key = "lines of many kinds";
    found = windows_.try_emplace(key, Window{now + bounds::log_window, 0, 0, ""}).first;
  }
  Window& window = found->second;
  if (window.passed < bounds::log_alike_max && !is_reader_behind) {
    ++window.passed;
    return true;
  }
  ++window.held_back;
  window.example = kind;
  return false;
}

std::vector<std::string> LogLimiter::advance(TimePoint now) {
  std::vector<std::string> lines;
  std::erase_if(windows_, [&](const auto& entry) {
    const Window& window = entry.second;
    if (window.until > now) return false;
    if (window.held_back > 0) {
      lines.push_back(fmt::format("{} more line{} like: {}", window.held_back,
                                  window.held_back == 1 ? "" : "s", window.example));
    }
    return true;
  });
  return lines;
}

std::optional<TimePoint> LogLimiter::next_deadline() const {
  std::optional<TimePoint> next;
  for (const auto& [kind, window] : windows_) {
    // A window that held nothing back needs no summary. The next line of its kind replaces it.
    if (window.held_back > 0) next = next ? std::min(*next, window.until) : window.until;
  }
  return next;
}

}  // namespace cpprun
