// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What cpprun knows about the person in front of it: whether stderr is a terminal, whether it shows
// colour, and the local time zone.

#include "launcher/plan/plan.h"
#include "launcher/report/console_messages.h"
#include "proto/environment.h"

namespace cpprun::io {

// Of our own stderr.
ConsoleStyle own_console_style(const Environment& environment, const LogOptions& logs);

// What our own stdout and stderr are.
ConsoleFacts console_facts();

// Seconds east of UTC, now.
int utc_offset_seconds();

}  // namespace cpprun::io
