// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/line_splitter.h"

#include <algorithm>
#include <utility>

#include "proto/bounds.h"
#include "proto/text.h"

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

// The bytes at the end of `text` that begin a UTF-8 character and do not complete it.
std::size_t unfinished_character(std::string_view text) {
  constexpr std::size_t character_bytes_max = 4;
  for (std::size_t back = 1; back < character_bytes_max && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) == 0x80U) continue;  // not the first of its character
    const std::size_t bytes = byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : byte >= 0xC0U ? 2 : 1;
    return bytes > back ? back : 0;
  }
  return 0;
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

// A return at the end may be the first half of a line's end; half a character is not shown.
std::size_t LineSplitter::showable() const {
  std::string_view text = kept_;
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text.size() - unfinished_character(text);
}

std::optional<Piece> LineSplitter::show_unfinished() {
  const auto length = showable();
  if (length <= shown_) return std::nullopt;
  const Piece piece{.text = std::string_view(kept_).substr(0, length),
                    .begins_line = !inside_line_,
                    .ends_line = false,
                    .shown = shown_};
  shown_ = length;
  return piece;
}

void LineSplitter::pass(std::string_view text, const Sink& sink) {
  const bool ends = text.back() == '\n';
  sink(Piece{.text = text,
             .begins_line = !inside_line_,
             .ends_line = ends,
             .shown = std::exchange(shown_, 0)});
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
