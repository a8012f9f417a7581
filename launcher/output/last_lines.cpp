// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/last_lines.h"

#include <algorithm>

#include "launcher/output/printable.h"
#include "proto/bounds.h"

namespace cpprun {

void LastLines::add(const Piece& piece) {
  auto text = piece.text;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  // Of a line without end the beginning says more than the rest: only that is kept.
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

std::vector<std::string> last_lines_of(std::string_view text) {
  LastLines lines;
  LineSplitter splitter;
  const auto keep = [&lines](const Piece& piece) { lines.add(piece); };
  splitter.take(text, keep);
  splitter.finish(keep);
  return lines.get();
}

}  // namespace cpprun
