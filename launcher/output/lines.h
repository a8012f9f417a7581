// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Handles lines of worker output: cuts them (LineSplitter), keeps the last ones for the report
// (LastLines), filters them, merges them on one console (LineMux), and makes them printable.

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/clock.h"

namespace cpprun {

struct Piece {
  std::string_view text;    // valid during the call only
  bool begins_line = true;  // print the prefix before it
  bool ends_line = true;    // it ends with a newline
  std::size_t shown = 0;    // leading bytes that `show_unfinished` already returned
  friend bool operator==(const Piece&, const Piece&) = default;
};

// Cuts a worker's bytes into lines for the console. Bytes pass unchanged. An over-long line is cut
// into pieces, never inside a UTF-8 character. A carriage return that is not part of a line end
// redraws the line, as progress bars do: the piece before it is passed on at once. An unfinished
// line, such as a prompt, can be shown early. The full piece still follows, for files and filters;
// its `shown` says how much is already on the console.
class LineSplitter {
 public:
  using Sink = std::function<void(const Piece&)>;

  void take(std::string_view bytes, const Sink& sink);
  // The stream has ended: passes on the rest without a newline.
  void finish(const Sink& sink);

  // The unfinished line so far, as it is. Valid until the next call.
  std::string_view unfinished() const { return kept_; }
  // Whether there are bytes that `show_unfinished` has not returned yet.
  bool has_unfinished() const { return showable() > shown_; }
  // The unfinished line so far, for the console only. Valid until the next call.
  std::optional<Piece> show_unfinished();

  // The state between two calls, for another object that continues.
  struct State {
    std::string kept = {};
    std::size_t shown = 0;
    bool inside_line = false;
    friend bool operator==(const State&, const State&) = default;
  };
  State state() const { return {kept_, shown_, inside_line_}; }
  void resume(State state) {
    kept_ = std::move(state.kept);
    shown_ = std::min(state.shown, kept_.size());
    inside_line_ = state.inside_line;
  }

 private:
  std::size_t showable() const;
  void pass(std::string_view text, const Sink& sink);
  void keep(std::string_view rest, const Sink& sink);

  std::string kept_;          // the beginning of a line; at most bounds::line_bytes_max
  std::size_t shown_ = 0;     // bytes of kept_ already shown
  bool inside_line_ = false;  // a piece of the line was already passed on
};

// The last lines of a stream for the report, bounded in lines and bytes.
class LastLines {
 public:
  void add(const Piece& piece);
  // Without newlines, terminal control sequences and trailing empty lines.
  std::vector<std::string> get() const;
  // The beginning of the last line that is not empty, in the same form; at most `bytes_max` of what
  // was written. Cheap, whatever is kept.
  std::string last(std::size_t bytes_max) const;

  // As in LineSplitter.
  struct State {
    std::deque<std::string> lines = {};
    bool is_open = false;
    friend bool operator==(const State&, const State&) = default;
  };
  State state() const { return {lines_, open_}; }
  void resume(State state) {
    lines_ = std::move(state.lines);
    bytes_ = 0;
    for (const auto& line : lines_) bytes_ += line.size();
    open_ = state.is_open && !lines_.empty();
  }

 private:
  std::deque<std::string> lines_;
  std::size_t bytes_ = 0;
  bool open_ = false;  // the last line may still grow
};

// The same for a complete text, such as the tail of a file.
std::vector<std::string> last_lines_of(std::string_view text);

// --duplicate-stdout-filters: selects the lines of a tee'd stream to write a second time, to the
// file that collects the selected lines of all workers of an attempt.

// The line for that file, with prefix and newline; empty if it contains none of the words. IoSlices
// of an over-long line and redraws of a progress bar count as separate lines, so lines of different
// workers never mix there.
std::string duplicate_of(const Piece& piece, std::string_view prefix,
                         const std::vector<std::string>& words);

// Merges several speakers on one console without mixing their lines. If a speaker interrupts an
// unfinished line of another (an over-long line or a progress bar), a newline is inserted. The
// prefix is printed again when the interrupted speaker continues.
class LineMux {
 public:
  // Appends to `console` what to write for this piece, minus the part already shown. `speaker`
  // identifies the source.
  void add(int speaker, std::string_view prefix, const Piece& piece, std::string& console);

  // As in LineSplitter.
  std::optional<int> state() const { return inside_; }
  void resume(std::optional<int> inside) { inside_ = inside; }

 private:
  std::optional<int> inside_;  // the speaker with an unfinished line on the console
};

// Puts the time before each line that begins with "cpprun: ". Other lines, such as those of the
// report's box, stay unchanged.
std::string timed(std::string_view text, WallTime now);

// Makes worker output safe to show in a report. Escape sequences are removed, a control character
// becomes a blank, and invalid UTF-8 or a character that changes the text direction becomes a
// question mark. Newlines and tabs stay; a carriage return before a newline is removed.
//
// Unlike `plain_line`, this removes colors without a trace: a worker's colors are harmless, but a
// name from an untrusted client must show that something was removed.
std::string printable(std::string_view text);

}  // namespace cpprun
