// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The end at which a person sits: starts the job of a Request on its hosts, shows what they say,
// and ends with the job's code when nobody of it is left anywhere.

#include <functional>
#include <string>
#include <string_view>

#include "launcher/fanout/fan_out.h"
#include "proto/environment.h"

namespace cpprun::io {

// Says a sentence of the console's own, in the way of all of cpprun's.
using SaySentence = std::function<void(const std::string& sentence, bool is_error)>;

// Takes what a host's agent says on stdout, where that is not for the person's eyes.
using TakeOutput = std::function<void(int number, std::string_view text)>;

// Where the console's process works, and the agents are to.
std::string working_folder();

int run_console(fanout::Request request, const Environment& environment, const SaySentence& say,
                const TakeOutput& take = {});

}  // namespace cpprun::io
