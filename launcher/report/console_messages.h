// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What cpprun says while a job runs (ConsoleMessages), and what the console shows of it
// (ConsoleStyle).

#include <string>
#include <string_view>

#include "launcher/config.h"
#include "launcher/plan/interfaces.h"
#include "launcher/plan/program.h"
#include "launcher/workers/supervisor.h"
#include "proto/environment.h"
#include "proto/link/message.h"
#include "rendezvous/logging.h"

namespace cpprun {

// How the console is spoken to: whether it is a terminal, what it shows, and what is worth saying.
struct ConsoleStyle {
  bool terminal = false;           // stderr is one: the start line is said
  bool colour = false;             // and NO_COLOR is not set
  bool timed = false;              // each line is given its time where it is written, by `timed`
  LogLevel most = LogLevel::info;  // what matters less is not said
  friend bool operator==(const ConsoleStyle&, const ConsoleStyle&) = default;
};

// Colour only on a terminal, and never where NO_COLOR is set or TERM is "dumb".
// Lines have their time where that was asked for, or where nothing was and there is no terminal.
ConsoleStyle console_style(bool terminal, const Environment& environment, const LogOptions& logs);

// What cpprun says while a job runs: one sentence per line, to stderr, starting with "cpprun: ". On
// a terminal there are also a start line and colour. Pure: text out of values, complete with its
// newline, empty if there is nothing to say.
class ConsoleMessages {
 public:
  explicit ConsoleMessages(ConsoleStyle style) : style_(style) {}

  // "cpprun 0.1.0: 2 nodes × 2 workers, node 0, round 1, store 10.0.0.1:29500, gloo on eth0, …"
  std::string started(const Config& config, const link::Sealed& sealed,
                      const ResolvedProgram& program, const SocketInterfaces& sockets,
                      const std::string& master_host) const;
  std::string note(const std::string& sentence) const;     // plain
  std::string detail(const std::string& sentence) const;   // for whoever wants to see everything
  std::string warning(const std::string& sentence) const;  // e.g. a full log disk
  std::string error(const std::string& sentence) const;    // cpprun itself cannot go on
  std::string waiting(const std::string& reason) const;
  std::string draining(const supervisor::Draining& action) const;
  // `last_seen`: what it was doing; may be empty.
  std::string killing(const supervisor::Killing& action, Duration grace,
                      const std::string& last_seen) const;
  std::string failed(const supervisor::Failed& action, const std::string& executable) const;

 private:
  std::string line(LogLevel level, const std::string& text) const;
  ConsoleStyle style_;
};

}  // namespace cpprun
