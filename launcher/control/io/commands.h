// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What cpprunctl does, what it prints, and the files of secrets that it writes.

#include <string>
#include <string_view>

#include "launcher/control/command_line.h"
#include "proto/environment.h"
#include "proto/result.h"
#include "proto/secure/secret.h"

namespace cpprun::io {

// Gives the exit code.
int run_control(const Wish& wish, const Environment& environment);

// `cpprunctl status`: one job, or the daemons that are here with all of their jobs.

// Prints it and gives the exit code.
int show_status(const Wish& wish, const Environment& environment);

// The commands that ask for something to be done.
int give_order(const Wish& wish, const Environment& environment);

// `cpprunctl doctor`: prints what was found, and gives the exit code.
int examine(const Wish& wish, const Environment& environment);

// cpprunctl's commands about secrets: these ask nobody.

// keygen. Answers the exit code, as all of them do.
int make_secret(const Wish& wish, const Environment& environment);
// token.
int print_token(const Wish& wish, const Environment& environment);

// Files of secrets, written: whole, closed to others and on the disk, or not at all.

// A new file, with the folders that it needs. Never one in the place of another: of two who make
// it at once, one is refused. What cannot be done leaves no file and no folder behind.
Result<void> create_key_file(const std::string& path, std::string_view text);

// Puts a secret before those that are in the file, in one step: whoever reads it meanwhile has the
// old ones, or all. The one that was first is the answer's.
Result<Secret> add_to_key_file(const std::string& path, const Secret& secret);

}  // namespace cpprun::io
