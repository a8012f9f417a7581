// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The other end of a remote shell, what `cpprun --fanout-child [remove]` is: starts this host's
// agent and the shells of its subtree, passes on what they say, and ends them all when its input is
// over, be it because the console is gone.

#include <asio/io_context.hpp>
#include <functional>
#include <string>

#include "proto/environment.h"

namespace cpprun::io {

// Answers what a console asks of the host of that number, at once or later.
using Reply = std::function<void(std::string answer)>;
using Answerer = std::function<void(int number, const std::string& question, Reply reply)>;

struct HostSideTerms {
  bool removes_itself = false;     // it was brought along, and its file is not needed any more
  std::string program = "cpprun";  // what the hosts below have to have
  // Of a program that is asked things, and runs no job; it lives no longer than the context.
  std::function<Answerer(asio::io_context&)> make_answerer = {};
};

int run_host_side(Environment environment, const HostSideTerms& terms);

}  // namespace cpprun::io
