// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Output of cpprunctl, and a terminal with a refreshing screen (LiveTerminal).

#include <termios.h>

#include <string>
#include <string_view>
#include <vector>

#include "launcher/table.h"
#include "proto/clock.h"
#include "proto/environment.h"
#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

// The terminal's width, if stdout is a terminal. Only then with colour, and not with NO_COLOR set.
Canvas canvas_of_stdout(const Environment& environment);
std::size_t height_of_terminal();

// False if the reader has closed the pipe. Lost output ends the process with 1.
bool print(std::string_view text);
// Prints a message to stderr with the program's name in front. A hint goes on a second line.
void report_error(std::string_view sentence, std::string_view hint = {});

// A terminal with a refreshing screen. It is restored however the program ends, because signals
// that would end it are returned as News instead.
class LiveTerminal {
 public:
  static Result<LiveTerminal> take();
  LiveTerminal(LiveTerminal&& other) noexcept;
  LiveTerminal& operator=(LiveTerminal&&) = delete;
  ~LiveTerminal();

  // False if the terminal is gone.
  bool show(const std::vector<std::string>& lines) const;

  struct News {
    std::string keys;  // as received; empty: none was pressed
    int signal = 0;    // a signal that asks to stop; 0: none
    bool is_gone = false;
  };
  // Returns when something happens or the time has passed.
  News wait(Duration timeout);

 private:
  LiveTerminal() = default;
  void enter() const;
  void leave() const;
  void pause() const;

  FileDescriptor signals_;
  termios before_{};
  bool is_mine_ = false;
};

}  // namespace cpprun::io
