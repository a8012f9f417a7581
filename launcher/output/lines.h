// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The lines of workers' output: cut (LineSplitter), kept for the report (LastLines), filtered,
// written to one console (LineMux), and made printable.

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"

namespace cpprun {

struct Piece {
  std::string_view text;    // valid during the call only
  bool begins_line = true;  // the prefix belongs before it
  bool ends_line = true;    // it closes with a newline
  std::size_t shown = 0;    // bytes at its beginning that `show_unfinished` gave before
  friend bool operator==(const Piece&, const Piece&) = default;
};

// Cuts a worker's bytes into lines for the console. Bytes pass unchanged; an over-long line is cut
// into pieces, never inside a UTF-8 character. A carriage return that is not part of a line end
// redraws the line, as progress bars do: what it ends is passed on at once. An unfinished line,
// such as a prompt, can be shown before its end is known: its piece follows as a whole all the
// same, for files and filters, and says how much of it the console has.
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

// The last words of a stream, bounded in lines and in bytes, for the report.
class LastLines {
 public:
  void add(const Piece& piece);
  // Without their newlines and what a terminal would obey; empty lines at the end are left out.
  std::vector<std::string> get() const;

 private:
  std::deque<std::string> lines_;
  std::size_t bytes_ = 0;
  bool open_ = false;  // the last line may still grow
};

// The same of a text that is there as a whole, such as the tail of a file.
std::vector<std::string> last_lines_of(std::string_view text);

// --duplicate-stdout-filters: which lines of a tee'd stream are written a second time, to the one
// file per attempt that collects the chosen lines of all workers.

// The line for that file, with prefix and newline, or nothing if it contains none of the words.
// Pieces of an over-long line, and redraws of a progress bar, count as lines of their own, so that
// lines of different workers never mix there.
std::string duplicate_of(const Piece& piece, std::string_view prefix,
                         const std::vector<std::string>& words);

// Several speakers, one console: lines of different speakers never mix. If another one speaks in
// the middle of somebody's line (an over-long one, a progress bar), a newline goes in between and
// the prefix is printed again when the first goes on.
class LineMux {
 public:
  // Appends to `console` what has to be written for this piece, without what was shown of it
  // before. Each speaker has a number.
  void add(int speaker, std::string_view prefix, const Piece& piece, std::string& console);

 private:
  std::optional<int> inside_;  // who has an unfinished line on the console
};

// The time in front of what cpprun itself says.
// With the time in front of each line that begins with "cpprun: "; the other lines of a text, such
// as those of the report's box, are left as they are.
std::string timed(std::string_view text, WallTime now);

// Workers write anything: colours, half characters, NUL, terminal commands. A report shows only
// text, which cannot be taken for anything else. This is not `plain_line`: a worker's colours are
// nobody's attack and vanish without a trace, but a stranger's name must show that something was
// in it.
// The text without what a terminal would obey: escape sequences are dropped, a control character
// becomes a blank, and what is not UTF-8 or changes the direction of writing becomes a question
// mark. Newlines and tabs stay; a carriage return before a newline does not.
std::string printable(std::string_view text);

}  // namespace cpprun
