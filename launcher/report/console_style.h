// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How the console is spoken to: whether it is a terminal, what it shows, and what is worth saying.

#include "launcher/config.h"
#include "proto/environment.h"
#include "rendezvous/logging.h"

namespace cpprun {

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

}  // namespace cpprun
