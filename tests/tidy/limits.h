// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What each room may have, in tables in tests/tidy/ that `./dev sizes` writes. A room that has more
// than its table says is reported, and so is a table that says clearly more than the room has.

#include <vector>

#include "tests/tidy/source.h"

namespace cpprun::tidy {

// The files and lines of the rooms of the product, against tests/tidy/sizes.txt.
std::vector<Violation> check_sizes(const Tree& tree);

// The words to avoid (prose.h) of all rooms, against tests/tidy/prose.txt.
std::vector<Violation> check_prose(const Tree& tree);

// The tables for this tree. The words to avoid of all rooms together can only get fewer: where they
// are more than in the table of the tree, it is not among them.
std::vector<Source> limits_of(const Tree& tree);

}  // namespace cpprun::tidy
