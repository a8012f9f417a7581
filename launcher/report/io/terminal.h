// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What cpprun knows about its terminal: whether stderr is one, whether it shows color, and the
// local time zone.

#include "launcher/plan/plan.h"
#include "launcher/report/console_messages.h"
#include "proto/environment.h"

namespace cpprun::io {

// For this process's stderr.
ConsoleStyle own_console_style(const Environment& environment, const LogOptions& logs);

// For this process's stdout and stderr.
ConsoleFacts console_facts();

// The current offset in seconds east of UTC.
int utc_offset_seconds();

}  // namespace cpprun::io
