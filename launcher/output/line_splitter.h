// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Cuts a worker's bytes into lines for the console. Bytes pass unchanged; an over-long line is cut
// into pieces, never inside a UTF-8 character. A carriage return that is not part of a line end
// redraws the line, as progress bars do: what it ends is passed on at once. An unfinished line,
// such as a prompt, can be shown before its end is known: its piece follows as a whole all the
// same, for files and filters, and says how much of it the console has.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace cpprun {

struct Piece {
  std::string_view text;    // valid during the call only
  bool begins_line = true;  // the prefix belongs before it
  bool ends_line = true;    // it closes with a newline
  std::size_t shown = 0;    // bytes at its beginning that `show_unfinished` gave before
  friend bool operator==(const Piece&, const Piece&) = default;
};

class LineSplitter {
 public:
  using Sink = std::function<void(const Piece&)>;

  void take(std::string_view bytes, const Sink& sink);
  // The stream is over: what has no newline yet is passed on without one.
  void finish(const Sink& sink);

  // Whether something is kept that `show_unfinished` has not given yet.
  bool has_unfinished() const { return showable() > shown_; }
  // For the console alone: what is kept of a line, up to here. Valid until the next call.
  std::optional<Piece> show_unfinished();

 private:
  std::size_t showable() const;
  void pass(std::string_view text, const Sink& sink);
  void keep(std::string_view rest, const Sink& sink);

  std::string kept_;          // the beginning of a line; at most bounds::line_bytes_max
  std::size_t shown_ = 0;     // bytes of kept_ that were shown
  bool inside_line_ = false;  // a piece of the line was already passed on
};

}  // namespace cpprun
