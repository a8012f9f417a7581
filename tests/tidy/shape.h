// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How long, how wide, how ended: what a reader's eye and a diff need.

#include <vector>

#include "tests/tidy/source.h"

namespace cpprun::tidy {

inline constexpr int file_lines_max = 1000;    // a whole class fits in one file
inline constexpr int function_lines_max = 70;  // one screen
inline constexpr int line_columns_max = 100;

// Files are at most 1,000 lines, lines at most 100 columns; tables in documents may be wider.
std::vector<Violation> check_length(const Source& source);

// A function, a test case among them, is at most 70 lines from its first brace to its last.
std::vector<Violation> check_functions(const Source& source);

// No trailing blanks, no tabs, one line break at the end.
std::vector<Violation> check_line_ends(const Source& source);

// A source names its license on the first line, or on the second after a `#!`.
std::vector<Violation> check_license_tag(const Source& source);

// A document has one title, on its first line.
std::vector<Violation> check_title(const Source& source);

// The name of a test case is a sentence: it says what happens.
std::vector<Violation> check_test_names(const Source& source);

}  // namespace cpprun::tidy
