// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The commands of cpprunctl, their output, and the secret files that it writes.

#include <string>
#include <string_view>

#include "launcher/control/command_line.h"
#include "proto/environment.h"
#include "proto/result.h"
#include "proto/secure/secret.h"

namespace cpprun::io {

// Returns the exit code.
int run_control(const ControlOptions& options, const Environment& environment);

// `cpprunctl status`: one job, or the daemons on this machine with all of their jobs.

// Prints it and returns the exit code.
int show_status(const ControlOptions& options, const Environment& environment);

// The commands that change a job, a host or a cpprund.
int give_order(const ControlOptions& options, const Environment& environment);

// `cpprunctl doctor`: prints the findings and returns the exit code.
int examine(const ControlOptions& options, const Environment& environment);

// Commands about secrets. They contact no other program.

// keygen. Returns the exit code, as all of them do.
int make_secret(const ControlOptions& options, const Environment& environment);
// token.
int print_token(const ControlOptions& options, const Environment& environment);

// Writes secret files: complete, private and flushed to disk, or not at all.

// Creates a new file and its missing directories. Never replaces a file: if two processes create it
// at once, one fails. On failure leaves no file and no directory behind.
Result<void> create_key_file(const std::string& path, std::string_view text);

// Inserts a secret before the existing ones, atomically: a concurrent reader gets the old secrets,
// or all of them. Returns the secret that was first before.
Result<Secret> add_to_key_file(const std::string& path, const Secret& secret);

// The commands that follow the event stream or refresh: events, wait and top.

int show_events(const ControlOptions& options, const Environment& environment);
int wait_for_end(const ControlOptions& options, const Environment& environment);

// `cpprunctl top`: refreshes each second. Prints once if stdout is not a terminal.
int show_top(const ControlOptions& options, const Environment& environment);

}  // namespace cpprun::io
