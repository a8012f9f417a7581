// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Runs a fan-out (launcher/fanout/fan_out.h): on the console, and on each host.

#include <asio/io_context.hpp>

#include <functional>
#include <string>
#include <string_view>

#include "launcher/fanout/fan_out.h"
#include "proto/environment.h"

namespace cpprun::io {

// Prints a message of the console's own in cpprun's usual format.
using SaySentence = std::function<void(const std::string& sentence, bool is_error)>;

// Receives the stdout of a host's agent if it is not for the user.
using TakeOutput = std::function<void(int host, std::string_view text)>;

// The working directory of the console, which the agents use too.
std::string working_directory();

// Starts the job of a Request on its hosts, shows their output, and returns the job's exit code
// when no process of the job is left on any host.
int run_console(fanout::Request request, const Environment& environment, const SaySentence& say,
                const TakeOutput& take = {});

// Answers a console's question to this host, immediately or later.
using Reply = std::function<void(std::string answer)>;
using Answerer = std::function<void(const std::string& question, Reply reply)>;

struct HostSideTerms {
  bool removes_itself = false;  // the program was shipped, and its file is to be deleted
  // For a program that answers questions and runs no job. The answerer must not outlive the
  // context.
  std::function<Answerer(asio::io_context&)> make_answerer = {};
};

// The host's end of a remote shell (`cpprun --fanout-child [remove]`). Starts this host's agent,
// relays its output, and stops it when its own input ends, for example because the console is gone.
int run_host_side(Environment environment, const HostSideTerms& terms);

}  // namespace cpprun::io
