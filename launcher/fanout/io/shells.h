// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Drives HostShells on an io_context: opens the remote shells it requests, sends its messages
// through them, and feeds it what comes back.

#include <sys/resource.h>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/fanout/bootstrap.h"
#include "launcher/fanout/fan_out.h"
#include "launcher/fanout/io/piped_program.h"
#include "launcher/fanout/message.h"
#include "proto/clock.h"
#include "proto/environment.h"

namespace cpprun::io {

class Shells {
 public:
  // `shell` is the remote shell's command. `pass` receives messages from all hosts; never from
  // within a call to this object. The context must not run after the end of this object.
  Shells(asio::io_context& context, Environment environment, std::vector<std::string> shell,
         fanout::JobTerms job, fanout::OwnBinary own,
         std::function<void(const fanout::Said&)> pass);
  Shells(const Shells&) = delete;
  Shells& operator=(const Shells&) = delete;

  void dial(const fanout::Dial& dial) { handle(dial); }
  void tell(const fanout::Tell& tell) { handle(tell); }
  // No shell is open. `idle` is called when that becomes true.
  bool empty() const { return machine_.empty(); }
  void when_idle(std::function<void()> idle) { idle_ = std::move(idle); }

 private:
  struct Shell {
    std::optional<PipedProgram> child;
    std::string heard;  // incomplete line or message
    std::string last_error;
    std::string refusal;
    bool is_ready = false;
  };

  void handle(const fanout::HostShells::Event& event);
  void perform(const fanout::HostShells::Actions& actions);
  void pass_soon(fanout::Said said);
  void open(const fanout::Member& host);
  void send(int number, std::string bytes);
  void kill(int number);
  void hear(int number, std::string_view bytes);
  void read_lines(int number, Shell& shell);
  void read_messages(int number, Shell& shell);
  void hear_error(int number, std::string_view bytes);
  void end(int number, int status);
  void arm();
  void look(std::optional<TimePoint> due);

  asio::io_context& context_;
  const Environment environment_;
  const std::optional<rlimit> open_files_;  // as this process was started; the shells get it back
  asio::steady_timer timer_;
  std::vector<std::string> words_;
  fanout::HostShells machine_;
  fanout::OwnBinary own_;
  std::function<void(const fanout::Said&)> pass_;
  std::function<void()> idle_;
  std::map<int, Shell> shells_;
  std::optional<TimePoint> armed_;
};

// Why this process cannot have the open files for that many shells; nullopt if it can.
std::optional<std::string> lacks_open_files(std::size_t hosts);

// Describes this program for the other side, with its hash if it is to be shipped. Works even if
// the file was removed after the start.
fanout::OwnBinary own_binary(bool ship, const std::string& program = "cpprun");

}  // namespace cpprun::io
