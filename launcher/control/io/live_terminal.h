// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A terminal on which a picture is shown that changes, and which is left as it was found, however
// the program ends: signals that would end it are heard as words instead.

#include <termios.h>

#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

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
