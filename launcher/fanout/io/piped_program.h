// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A program at the other end of three pipes: a remote shell, or a host's own agent. In a process
// group of its own, so that a Ctrl-C at the terminal is the console's to pass on.

#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun::io {

struct PipedOrder {
  std::vector<std::string> words;  // the program, looked up on PATH, and its arguments
  Environment environment;
  bool has_input = true;      // else /dev/null
  bool ends_with_us = false;  // SIGTERM when this process is gone, however it went
};

// None of these is called from within a call of ours.
struct PipedEvents {
  std::function<void(std::string_view)> output;
  std::function<void(std::string_view)> error;
  // Last of all, with what waitpid said; what it has written was told before.
  std::function<void(int status)> over;
};

class PipedProgram {
 public:
  static Result<PipedProgram> start(asio::io_context& context, const PipedOrder& order,
                                    PipedEvents events);
  ~PipedProgram();
  PipedProgram(PipedProgram&&) noexcept;
  PipedProgram& operator=(PipedProgram&&) noexcept;

  // Never waits; what it does not take yet is kept.
  void write(std::string bytes);
  // After what was written.
  void close_input();
  // Its output is left in the pipes while it is held.
  void hold(bool held);
  void signal(int signal);  // the program alone
  void kill_group();

 private:
  class Impl;
  explicit PipedProgram(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

// "ended with code 255", "was killed by SIGKILL".
std::string end_text(int status);

}  // namespace cpprun::io
