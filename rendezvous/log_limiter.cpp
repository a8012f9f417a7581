// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/log_limiter.h"

#include <fmt/format.h>

#include <algorithm>

#include "proto/bounds.h"

namespace cpprun {
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
    // Whoever invents reasons without end shares one window.
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
    // A window that held nothing back has nothing to say; the next line finds it over.
    if (window.held_back > 0) next = next ? std::min(*next, window.until) : window.until;
  }
  return next;
}

}  // namespace cpprun
