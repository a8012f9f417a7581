// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The console of a fan-out: starts the job of a Request on its hosts, shows their output, and exits
// with the job's code when no process of the job is left on any host.

#include <functional>
#include <string>
#include <string_view>

#include "launcher/fanout/fan_out.h"
#include "proto/environment.h"

namespace cpprun::io {

// Prints a message of the console's own in cpprun's usual format.
using SaySentence = std::function<void(const std::string& sentence, bool is_error)>;

// Receives the stdout of a host's agent if it is not for the user.
using TakeOutput = std::function<void(int number, std::string_view text)>;

// The working directory of the console, which the agents use too.
std::string working_folder();

int run_console(fanout::Request request, const Environment& environment, const SaySentence& say,
                const TakeOutput& take = {});

}  // namespace cpprun::io
