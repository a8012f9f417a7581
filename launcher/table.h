// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A text table for the terminal. Columns are as wide as needed, and cut if the terminal is too
// narrow. Untrusted text is reduced to one safe line. Pure.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

enum class Tint { plain, good, busy, bad, faint };

struct Cell {
  std::string text;
  Tint tint = Tint::plain;
};

struct Column {
  std::string title;
  bool is_number = false;  // aligned to the right
  bool gives_way = false;  // cut first if there is no room
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
};

// The output's width (0: unlimited), and whether it shows color.
struct Canvas {
  std::size_t width = 0;
  bool has_colour = false;
};

// The header and the rows, without newlines.
std::vector<std::string> lines_of(const Table& table, const Canvas& canvas);
// The same as text, each line with its newline.
std::string table_text(const Table& table, const Canvas& canvas);

// One safe line of at most `width` characters (0: unlimited). A longer text ends in "…".
std::string clipped(std::string_view text, std::size_t width);
// The width in characters on a terminal.
std::size_t width_of(std::string_view text);
std::string tinted(std::string_view text, Tint tint, bool has_colour);

}  // namespace cpprun
