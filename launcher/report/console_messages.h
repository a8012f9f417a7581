// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Formats the messages that cpprun prints while a job runs (ConsoleMessages), and decides which of
// them are shown and how (ConsoleStyle).

#include <string>

#include "launcher/config.h"
#include "launcher/plan/interfaces.h"
#include "launcher/plan/program.h"
#include "launcher/report/events.h"
#include "proto/clock.h"
#include "proto/environment.h"
#include "proto/link/message.h"
#include "rendezvous/logging.h"

namespace cpprun {

// How messages are shown on the console, and which.
struct ConsoleStyle {
  bool terminal = false;           // stderr is a terminal: the start line is printed
  bool colour = false;             // `terminal`, and NO_COLOR is not set
  bool timed = false;              // lines get their time when written, by `timed`
  LogLevel most = LogLevel::info;  // less important messages are suppressed
  friend bool operator==(const ConsoleStyle&, const ConsoleStyle&) = default;
};

// Color is used only on a terminal, and never if NO_COLOR is set or TERM is "dumb". Lines show
// their time if `logs` asks for it, or by default if stderr is not a terminal.
ConsoleStyle console_style(bool terminal, const Environment& environment, const LogOptions& logs);

// Formats the messages that cpprun prints to stderr while a job runs: one sentence per line,
// starting with "cpprun: ". A terminal also gets a start line and color. Pure: returns complete
// lines with their newline, or an empty string if nothing is to be printed.
class ConsoleMessages {
 public:
  explicit ConsoleMessages(ConsoleStyle style) : style_(style) {}

  // "cpprun 0.1.0: 2 nodes × 2 workers, node 0, round 1, store 10.0.0.1:29500, gloo on eth0, …"
  // `status_page`: its address if it is served by this process.
  std::string started(const Config& config, const link::Sealed& sealed,
                      const ResolvedProgram& program, const SocketInterfaces& sockets,
                      const std::string& master_host, const std::string& status_page) const;
  // The job succeeded.
  std::string finished(Duration duration) const;
  // A sentence with its level in front, as with_level() does.
  std::string message(LogLevel level, const std::string& sentence) const;
  // What is printed of this event.
  std::string text(const events::Event& event) const;

 private:
  std::string for_terminal(const std::string& text) const;
  std::string line(LogLevel level, const std::string& text) const;
  ConsoleStyle style_;
};

}  // namespace cpprun
