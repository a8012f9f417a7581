// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A table for people: columns as wide as they need to be, cut where the terminal ends. Whatever
// comes from strangers is made one harmless line. Pure: lines out of values.

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
  bool is_number = false;  // to the right
  bool gives_way = false;  // is cut first where there is no room
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
};

// How something is shown: so wide (0: without end), and whether a terminal understands colours.
struct Canvas {
  std::size_t width = 0;
  bool has_colour = false;
};

// The titles and the rows, without newlines.
std::vector<std::string> lines_of(const Table& table, const Canvas& canvas);

// One harmless line of at most so many characters (0: without end); what is longer ends in "…".
std::string clipped(std::string_view text, std::size_t width);
// Characters, as a terminal shows them.
std::size_t width_of(std::string_view text);
std::string tinted(std::string_view text, Tint tint, bool has_colour);

}  // namespace cpprun
