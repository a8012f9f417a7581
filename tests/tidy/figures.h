// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How large the rooms are and how much of them is comment. Nothing here is judged: the lengths that
// must not be passed are in shape.h.

#include <string>
#include <vector>

#include "tests/tidy/source.h"

namespace cpprun::tidy {

struct RoomFigures {
  std::string room;  // launcher/agent, proto, tests, …: io/ counts with its room
  int files = 0;
  int lines = 0;
  int median_lines = 0;   // of a file; of two in the middle the shorter
  int longest_lines = 0;  // of a file
  int comment_lines = 0;  // lines that hold a comment, behind code or alone; the licence's too
  friend bool operator==(const RoomFigures&, const RoomFigures&) = default;
};

// The room that a file counts with; "." for what is in none.
std::string room_with_figures(std::string_view path);

// One for each room that holds C++, by name, and one for all of them at the end, called "all".
std::vector<RoomFigures> figures_of(const Tree& tree);

// A table for people, a line for each room.
std::string to_text(const std::vector<RoomFigures>& rooms);

}  // namespace cpprun::tidy
