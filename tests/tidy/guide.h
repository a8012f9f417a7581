// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The page for people whose job was set up wrong names every sentence that the programs can say
// about it, so that whoever searches for what is on the screen finds what helps.

#include <string>
#include <vector>

#include "tests/tidy/source.h"

namespace cpprun::tidy {

// The sentences in a source: its literals of several words, adjacent ones joined, each `{…}` of a
// format as `…`.
std::vector<std::string> sentences_of(std::string_view text);

// docs/troubleshooting.md has them all, of every file that speaks of the set-up.
std::vector<Violation> check_troubleshooting(const Tree& tree);

}  // namespace cpprun::tidy
