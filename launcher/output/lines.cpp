// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/lines.h"

#include <algorithm>
#include <utility>

#include "launcher/output/bounds.h"
#include "proto/text.h"
#include "rendezvous/logging.h"

namespace cpprun {

namespace {

// The length of the first complete segment in `bytes`; 0 if none is complete yet.
std::size_t segment_length(std::string_view bytes) {
  const auto newline = bytes.find('\n');
  const auto line = bytes.substr(0, newline);
  const auto redraw = line.find('\r');
  // A return at the very end may be the first half of "\r\n": wait for the next byte.
  if (redraw != std::string_view::npos && redraw + 1 < line.size()) return redraw + 1;
  if (newline == std::string_view::npos) return 0;
  return newline + 1;
}

// The number of bytes at the end of `text` that start a UTF-8 character but do not complete it.
std::size_t unfinished_character(std::string_view text) {
  constexpr std::size_t character_bytes_max = 4;
  for (std::size_t back = 1; back < character_bytes_max && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) == 0x80U) continue;  // not the first byte of a character
    const std::size_t bytes = byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : byte >= 0xC0U ? 2 : 1;
    return bytes > back ? back : 0;
  }
  return 0;
}

}  // namespace

void LineSplitter::take(std::string_view bytes, const Sink& sink) {
  // Only the line left open is copied; all others are passed on in place.
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

// Excludes a trailing return, which may be the first half of "\r\n", and an incomplete character.
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
  // After a redraw the next segment starts at the left margin and needs its prefix.
  inside_line_ = !ends && text.back() != '\r';
}

void LineSplitter::keep(std::string_view rest, const Sink& sink) {
  // Only the byte after the bound shows whether a character ends there, so wait for one more.
  while (rest.size() > bounds::line_bytes_max) {
    const auto length = length_within(rest, bounds::line_bytes_max);
    pass(rest.substr(0, length), sink);
    rest.remove_prefix(length);
  }
  kept_.append(rest);
}

void LastLines::add(const Piece& piece) {
  auto text = piece.text;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  // Of an over-long line keep only the beginning, which says more than the rest.
  const auto room = bounds::last_lines_bytes_max / 4;
  if (!open_) {
    lines_.emplace_back(text.substr(0, room));
    bytes_ += lines_.back().size();
  } else if (lines_.back().size() < room) {
    const auto more = text.substr(0, room - lines_.back().size());
    lines_.back() += more;
    bytes_ += more.size();
  }
  // A redrawn line (a progress bar) replaces itself instead of filling the report.
  const bool redrawn = !piece.ends_line && !piece.text.empty() && piece.text.back() == '\r';
  open_ = !piece.ends_line && !redrawn;
  if (redrawn) {
    bytes_ -= lines_.back().size();
    lines_.pop_back();
  }
  while (lines_.size() > bounds::last_lines_max || bytes_ > bounds::last_lines_bytes_max) {
    bytes_ -= lines_.front().size();
    lines_.pop_front();
  }
}

std::vector<std::string> LastLines::get() const {
  std::vector<std::string> lines;
  for (const auto& line : lines_) lines.push_back(printable(line));
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

std::string LastLines::last(std::size_t bytes_max) const {
  for (auto line = lines_.rbegin(); line != lines_.rend(); ++line) {
    std::string text = printable(line->substr(0, bytes_max));
    if (!trimmed(text).empty()) return text;
  }
  return {};
}

std::vector<std::string> last_lines_of(std::string_view text) {
  LastLines lines;
  LineSplitter splitter;
  const auto keep = [&lines](const Piece& piece) { lines.add(piece); };
  splitter.take(text, keep);
  splitter.finish(keep);
  return lines.get();
}

std::string duplicate_of(const Piece& piece, std::string_view prefix,
                         const std::vector<std::string>& words) {
  const bool wanted = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return piece.text.find(word) != std::string_view::npos;
  });
  if (!wanted) return "";
  auto text = piece.text;
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  std::string line(prefix);
  line += text;
  line += '\n';
  return line;
}

void LineMux::add(int speaker, std::string_view prefix, const Piece& piece, std::string& console) {
  const auto text = piece.text.substr(piece.shown);
  if (text.empty()) return;
  const bool goes_on = inside_ == speaker;
  if (inside_ && !goes_on) console += '\n';
  if ((piece.begins_line && piece.shown == 0) || !goes_on) console += prefix;
  console += text;
  inside_ = piece.ends_line ? std::nullopt : std::optional(speaker);
}

std::string timed(std::string_view text, WallTime now) {
  const std::string time = log_time(now);
  std::string result;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end == std::string_view::npos ? end : end + 1);
    auto words = line;
    if (words.starts_with("\x1b[")) words.remove_prefix(words.find('m') + 1);
    if (words.starts_with("cpprun: ")) result += time;
    result += line;
    text.remove_prefix(line.size());
  }
  return result;
}

namespace {

constexpr char escape = '\x1b';

unsigned byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

// The length of the escape sequence at the start of `text`; an unterminated one extends to the end.
std::size_t sequence_length(std::string_view text) {
  if (text.size() < 2) return text.size();
  if (text[1] == '[') {
    std::size_t at = 2;
    while (at < text.size() && byte_at(text, at) >= 0x20U && byte_at(text, at) < 0x40U) ++at;
    // Any other byte does not end a sequence and is processed separately.
    const bool ended = at < text.size() && byte_at(text, at) >= 0x40U && byte_at(text, at) < 0x7fU;
    return ended ? at + 1 : at;
  }
  // A string for the terminal itself (title, link), up to its terminator or the end of the line.
  if (text[1] == ']' || text[1] == 'P' || text[1] == 'X' || text[1] == '^' || text[1] == '_') {
    std::size_t at = 2;
    while (at < text.size() && text[at] != '\a' && text[at] != escape && text[at] != '\n') ++at;
    const bool terminated = text.substr(std::min(at, text.size())).starts_with("\x1b\\");
    if (terminated) return at + 2;
    return at < text.size() && text[at] == '\a' ? at + 1 : at;
  }
  return byte_at(text, 1) >= 0x20U && byte_at(text, 1) < 0x7fU ? 2 : 1;
}

// C1 controls, directional marks, and line separators that only some programs recognize.
bool deceives(unsigned code) {
  return (code >= 0x80U && code < 0xa0U) || code == 0x61cU || code == 0x200eU || code == 0x200fU ||
         (code >= 0x2028U && code <= 0x202eU) || (code >= 0x2066U && code <= 0x2069U) ||
         code == 0xfeffU;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    if (text.front() == escape) {
      text.remove_prefix(sequence_length(text));
      continue;
    }
    const auto [length, code] = first_character(text);
    const auto character = text.substr(0, std::max<std::size_t>(length, 1));
    if (length == 0 || deceives(code)) {
      result += '?';
    } else if (text.starts_with("\r\n")) {
      // Drop it: the newline follows.
    } else if ((code < 0x20U && code != '\n' && code != '\t') || code == 0x7fU) {
      result += ' ';
    } else {
      result += character;
    }
    text.remove_prefix(character.size());
  }
  return result;
}

}  // namespace cpprun
