// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The host's end of a remote shell (`cpprun --fanout-child [remove]`). Starts this host's agent and
// the shells of its subtree, relays their output, and stops them all when its input ends, for
// example because the console is gone.

#include <asio/io_context.hpp>
#include <functional>
#include <string>

#include "proto/environment.h"

namespace cpprun::io {

// Answers a console's question to the host of that number, immediately or later.
using Reply = std::function<void(std::string answer)>;
using Answerer = std::function<void(int number, const std::string& question, Reply reply)>;

struct HostSideTerms {
  bool removes_itself = false;     // the program was shipped, and its file is to be deleted
  std::string program = "cpprun";  // the program that the hosts below need
  // For a program that answers questions and runs no job. The answerer must not outlive the
  // context.
  std::function<Answerer(asio::io_context&)> make_answerer = {};
};

int run_host_side(Environment environment, const HostSideTerms& terms);

}  // namespace cpprun::io
