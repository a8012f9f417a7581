// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/line_splitter.h"

#include <algorithm>
#include <utility>

#include "proto/bounds.h"
#include "proto/utf8.h"

namespace cpprun {

namespace {

// The length of the first complete segment in `bytes`, 0 where none is complete yet.
std::size_t segment_length(std::string_view bytes) {
  const auto newline = bytes.find('\n');
  const auto line = bytes.substr(0, newline);
  const auto redraw = line.find('\r');
  // A return at the very end may be the first half of a line's end: the next byte will tell.
  if (redraw != std::string_view::npos && redraw + 1 < line.size()) return redraw + 1;
  if (newline == std::string_view::npos) return 0;
  return newline + 1;
}

}  // namespace

void LineSplitter::take(std::string_view bytes, const Sink& sink) {
  // Only the line that was left open is joined; all others are passed on where they lie.
  while (!kept_.empty() && !bytes.empty()) {
    const auto more =
        std::min(bytes.size(),
                 bytes.find('\n') == std::string_view::npos ? bytes.size() : bytes.find('\n') + 1);
    kept_.append(bytes.substr(0, more));
    bytes.remove_prefix(more);
    const std::string joined = std::exchange(kept_, {});
    std::string_view rest = joined;
    for (auto length = segment_length(rest); length > 0; length = segment_length(rest)) {
      pass(rest.substr(0, length), sink);
      rest.remove_prefix(length);
    }
    keep(rest, sink);
  }
  for (auto length = segment_length(bytes); length > 0; length = segment_length(bytes)) {
    pass(bytes.substr(0, length), sink);
    bytes.remove_prefix(length);
  }
  keep(bytes, sink);
}

void LineSplitter::finish(const Sink& sink) {
  const std::string rest = std::exchange(kept_, {});
  if (!rest.empty()) pass(rest, sink);
  inside_line_ = false;
}

void LineSplitter::pass(std::string_view text, const Sink& sink) {
  const bool ends = text.back() == '\n';
  sink(Piece{.text = text, .begins_line = !inside_line_, .ends_line = ends});
  // After a redraw the next segment begins at the left margin again and needs its prefix.
  inside_line_ = !ends && text.back() != '\r';
}

void LineSplitter::keep(std::string_view rest, const Sink& sink) {
  // Only the byte after the bound tells whether a character ends there, so one more is awaited.
  while (rest.size() > bounds::line_bytes_max) {
    const auto length = length_within(rest, bounds::line_bytes_max);
    pass(rest.substr(0, length), sink);
    rest.remove_prefix(length);
  }
  kept_.append(rest);
}

}  // namespace cpprun
