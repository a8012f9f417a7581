// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where cpprunctl prints, and a terminal for a picture that changes (LiveTerminal).

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

// As wide as the terminal, where stdout is one; colour there alone, and not with NO_COLOR.
Canvas canvas_of_stdout(const Environment& environment);
std::size_t height_of_terminal();

// False where the reader has closed the pipe. Output that is lost ends the process with 1.
bool print(std::string_view text);
// A sentence on stderr, with the program's name before it; a hint is a second line.
void complain(std::string_view sentence, std::string_view hint = {});

// A terminal on which a picture is shown that changes, and which is left as it was found, however
// the program ends: signals that would end it are heard as words instead.
class LiveTerminal {
 public:
  static Result<LiveTerminal> take();
  LiveTerminal(LiveTerminal&& other) noexcept;
  LiveTerminal& operator=(LiveTerminal&&) = delete;
  ~LiveTerminal();

  // False where it is gone.
  bool show(const std::vector<std::string>& lines) const;

  struct News {
    std::string keys;  // as they came; empty: none was pressed
    int signal = 0;    // that asks for the end; 0: none does
    bool is_gone = false;
  };
  // Until something happens or that time has passed.
  News wait(Duration patience);

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
