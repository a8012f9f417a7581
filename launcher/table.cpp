// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "proto/text.h"

namespace cpprun {

namespace {

constexpr std::size_t gap = 2;          // between columns
constexpr std::size_t least_width = 4;  // minimum width of a shrunk column

std::string_view escape_of(Tint tint) {
  switch (tint) {
    case Tint::plain:
      return "";
    case Tint::good:
      return "\x1b[32m";
    case Tint::busy:
      return "\x1b[33m";
    case Tint::bad:
      return "\x1b[31m";
    case Tint::faint:
      return "\x1b[2m";
  }
  return "";
}

std::vector<std::size_t> natural_widths(const Table& table) {
  std::vector<std::size_t> widths;
  for (std::size_t at = 0; at < table.columns.size(); ++at) {
    std::size_t width = width_of(table.columns[at].title);
    for (const auto& row : table.rows) {
      if (at < row.size()) width = std::max(width, width_of(plain_line(row[at].text)));
    }
    widths.push_back(width);
  }
  return widths;
}

std::size_t total(const std::vector<std::size_t>& widths) {
  std::size_t sum = widths.empty() ? 0 : (widths.size() - 1) * gap;
  for (const std::size_t width : widths) sum += width;
  return sum;
}

// Shrinks the widest column that gives way, one character at a time, until the table fits.
std::vector<std::size_t> fitting_widths(const Table& table, std::size_t width) {
  auto widths = natural_widths(table);
  while (width > 0 && total(widths) > width) {
    std::size_t widest = widths.size();
    for (std::size_t at = 0; at < widths.size(); ++at) {
      if (!table.columns[at].gives_way || widths[at] <= least_width) continue;
      if (widest == widths.size() || widths[at] > widths[widest]) widest = at;
    }
    if (widest == widths.size()) break;
    --widths[widest];
  }
  return widths;
}

std::string padded(const std::string& text, std::size_t width, bool to_the_right) {
  const std::size_t used = width_of(text);
  const std::string blanks(width > used ? width - used : 0, ' ');
  return to_the_right ? blanks + text : text + blanks;
}

std::string without_blanks_at_end(std::string line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

}  // namespace

std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    text.remove_prefix(std::max<std::size_t>(first_character(text).bytes, 1));
    ++width;
  }
  return width;
}

std::string clipped(std::string_view text, std::size_t width) {
  const std::string line = plain_line(text);
  if (width == 0 || width_of(line) <= width) return line;
  std::string_view rest = line;
  for (std::size_t at = 0; at + 1 < width; ++at) {
    rest.remove_prefix(std::max<std::size_t>(first_character(rest).bytes, 1));
  }
  return line.substr(0, line.size() - rest.size()) + "…";
}

std::string tinted(std::string_view text, Tint tint, bool has_colour) {
  const auto escape = escape_of(tint);
  if (!has_colour || escape.empty()) return std::string(text);
  return fmt::format("{}{}\x1b[0m", escape, text);
}

std::vector<std::string> lines_of(const Table& table, const Canvas& canvas) {
  const auto widths = fitting_widths(table, canvas.width);
  std::vector<std::string> lines;
  const auto add = [&](const auto& text_at, const auto& tint_at) {
    std::string line;
    std::size_t used = 0;
    for (std::size_t at = 0; at < widths.size(); ++at) {
      if (at > 0) line += std::string(gap, ' ');
      used += at > 0 ? gap : 0;
      if (canvas.width > 0 && used >= canvas.width) break;
      const std::size_t room =
          canvas.width == 0 ? widths[at] : std::min(widths[at], canvas.width - used);
      auto text = padded(clipped(text_at(at), std::max<std::size_t>(room, 1)), room,
                         table.columns[at].is_number);
      if (at + 1 == widths.size()) text = without_blanks_at_end(text);
      line += tinted(text, tint_at(at), canvas.has_colour);
      used += room;
    }
    lines.push_back(without_blanks_at_end(std::move(line)));
  };
  add([&](std::size_t at) { return table.columns[at].title; },
      [](std::size_t) { return Tint::faint; });
  for (const auto& row : table.rows) {
    add([&](std::size_t at) { return at < row.size() ? row[at].text : std::string(); },
        [&](std::size_t at) { return at < row.size() ? row[at].tint : Tint::plain; });
  }
  return lines;
}

std::string table_text(const Table& table, const Canvas& canvas) {
  std::string text;
  for (const std::string& line : lines_of(table, canvas)) text += line + "\n";
  return text;
}

}  // namespace cpprun
