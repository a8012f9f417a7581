// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/restart_policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "proto/bounds.h"

namespace cpprun {

RestartPolicy::RestartPolicy(const JobTerms& terms)
    : restarts_max_(terms.restarts_max),
      backoff_(terms.restart_backoff),
      window_(terms.restart_window),
      no_restart_codes_(terms.no_restart_codes) {}

RestartPolicy::Verdict RestartPolicy::judge(TimePoint now, const End& end) {
  const link::ExitStatus status = end.root.status;
  const int code = status.signalled ? -status.value : status.value;
  const bool is_looping = loops(end);
  if (restarts_max_ == 0) return {.restart = false, .pause = {}, .reason = "no restart is allowed"};
  if (std::ranges::find(no_restart_codes_, code) != no_restart_codes_.end()) {
    return {.restart = false,
            .pause = {},
            .reason = fmt::format("{} {} is among --no-restart-codes",
                                  status.signalled ? "signal" : "exit code", status.value)};
  }
  if (is_looping) {
    return {.restart = false,
            .pause = {},
            .reason = fmt::format("rank {} died within {} s of its start {} times in a row",
                                  end.root.rank.value, in_seconds(bounds::crash_loop_life),
                                  bounds::crash_loop_deaths)};
  }
  while (window_ > Duration{} && !counted_.empty() && counted_.front() + window_ <= now) {
    counted_.pop_front();
  }
  if (counted_.size() >= static_cast<std::size_t>(restarts_max_)) {
    const std::string of_window =
        window_ > Duration{} ? fmt::format(" of the last {} s", in_seconds(window_)) : "";
    return {.restart = false,
            .pause = {},
            .reason = fmt::format("all {} restarts{} are used", restarts_max_, of_window)};
  }
  const Duration pause = next_pause();
  counted_.push_back(now);
  ++restarts_used_;
  return {.restart = true,
          .pause = pause,
          .reason = fmt::format("restart {} of {}", counted_.size(), restarts_max_)};
}

int RestartPolicy::restarts_left(TimePoint now) const {
  const auto counts = [&](TimePoint restart) {
    return window_ == Duration{} || restart + window_ > now;
  };
  return restarts_max_ - static_cast<int>(std::ranges::count_if(counted_, counts));
}

// Whether the same rank has died at its start too often; remembers this death.
bool RestartPolicy::loops(const End& end) {
  const bool early = end.life <= bounds::crash_loop_life;
  if (!early) {
    early_rank_.reset();
    early_deaths_ = 0;
    return false;
  }
  early_deaths_ = early_rank_ == end.root.rank ? early_deaths_ + 1 : 1;
  early_rank_ = end.root.rank;
  const bool watched = backoff_ > Duration{} || window_ > Duration{};
  return watched && early_deaths_ >= bounds::crash_loop_deaths;
}

// Doubled with each restart that still counts: what fails again and again gets more time to
// recover.
Duration RestartPolicy::next_pause() const {
  const Duration most = std::max(backoff_, Duration{bounds::backoff_max});
  Duration pause = backoff_;
  for (std::size_t i = 0; i < counted_.size() && pause < most; ++i) pause *= 2;
  return std::min(pause, most);
}

}  // namespace cpprun
