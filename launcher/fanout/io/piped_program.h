// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A program connected by three pipes: a remote shell or a host's own agent. It has its own process
// group, so that the console decides whether to forward a Ctrl-C at the terminal.

#include <sys/resource.h>
#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun::io {

struct PipedCommand {
  std::vector<std::string> words;  // the program, looked up on PATH, and its arguments
  Environment environment;
  bool has_input = true;                  // otherwise stdin is /dev/null
  bool ends_with_us = false;              // it gets SIGTERM when this process ends for any reason
  std::optional<rlimit> open_files = {};  // its limit, if this process has raised its own
};

// None of these is called from within a call to PipedProgram.
struct PipedEvents {
  std::function<void(std::string_view)> output;
  std::function<void(std::string_view)> error;
  // The last call, with the status from waitpid. All output was delivered before.
  std::function<void(int status)> over;
};

class PipedProgram {
 public:
  static Result<PipedProgram> start(asio::io_context& context, const PipedCommand& order,
                                    PipedEvents events);
  ~PipedProgram();
  PipedProgram(PipedProgram&&) noexcept;
  PipedProgram& operator=(PipedProgram&&) noexcept;

  // Does not block; bytes that cannot be written yet are queued.
  void write(std::string bytes);
  // Closes the input after the queued bytes.
  void close_input();
  // While held, its output is left in the pipes.
  void hold(bool held);
  void signal(int signal);  // only to the program itself
  void kill_group();

 private:
  class Impl;
  explicit PipedProgram(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

// Runs a program to its end and returns up to that many bytes of its output; none if it fails or
// cannot be run. Blocks meanwhile.
std::optional<std::string> output_of(const std::vector<std::string>& words,
                                     const Environment& environment, std::size_t bytes_max);

// "exited with code 255", "was killed by SIGKILL".
std::string end_text(int status);

}  // namespace cpprun::io
