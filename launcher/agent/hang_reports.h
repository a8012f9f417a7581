// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What an agent tells about hangs (HangReports): in its heartbeats, in reply to a Capture, and on
// the console.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent_actions.h"
#include "launcher/hang/observation.h"
#include "launcher/report/events.h"
#include "proto/clock.h"
#include "proto/link/message.h"

namespace cpprun {

class HangReports {
 public:
  // The number of an observation for the console. The coordinator's captures have numbers from 1.
  static constexpr std::uint64_t for_console = std::numeric_limits<std::uint64_t>::max();

  // A new round, or a new link: nothing was reported yet.
  void begin_round() { *this = {}; }
  void begin_link() { reported_.reset(); }
  // A process group timed out. The next heartbeat says so.
  void timed_out() { has_timed_out_ = true; }

  // Before each heartbeat. `quiet`: how long no worker has made progress; zero: one has.
  void add_to(link::Heartbeat& beat, TimePoint now, Duration quiet, Duration hang_timeout);
  // Whether a heartbeat has to be sent now. The coordinator in this process gets none otherwise,
  // and a coordinator that is about to end the round has to know at once.
  bool has_news(TimePoint now, Duration quiet, bool is_local) const;

  // The reply to a Capture, in parts. Remembers what the verdict will refer to.
  std::vector<link::Captured> reply_to_capture(const agent::WorkersObserved& event,
                                               RoundNumber round, Duration quiet);
  events::HangFound found(const link::Verdict& verdict, const link::Sealed& sealed,
                          bool is_here) const;
  // When the workers were observed for that verdict; zero: they were not, or not yet.
  WallTime observed_at(const link::Verdict& verdict) const;

  // For SIGQUIT.
  static std::string text_of(const agent::WorkersObserved& event);

 private:
  static std::optional<TimePoint> since(TimePoint now, Duration quiet) {
    return quiet > Duration{} ? std::optional(now - quiet) : std::nullopt;
  }

  bool has_timed_out_ = false;
  std::optional<TimePoint> reported_;  // since when no worker made progress, by the last heartbeat
  agent::WorkersObserved captured_;    // the last capture, without the observations
};

}  // namespace cpprun
