// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Words that slow down a reader who is new to the project, in the comments, strings and pages of
// the product. prose.cpp lists them and what to write instead; limits.h says how many a room may
// have.

#include <map>
#include <string>
#include <vector>

#include "tests/tidy/source.h"

namespace cpprun::tidy {

// Each of those words and where it is. Tests, CHANGELOG.md and NOTICE.md may use them.
std::vector<Violation> words_to_avoid_in(const Source& source);

struct ProseFigures {
  int found = 0;  // words to avoid
  int words = 0;  // all words
  double per_10000() const { return words == 0 ? 0 : 1e4 * found / words; }
  friend bool operator==(const ProseFigures&, const ProseFigures&) = default;
};

// Of the C++ and the pages of each room of figures.h that may not use them.
std::map<std::string, ProseFigures> prose_figures_of(const Tree& tree);

// One line for people, about all rooms together.
std::string to_text(const std::map<std::string, ProseFigures>& rooms);

}  // namespace cpprun::tidy
