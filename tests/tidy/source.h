// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A file of the house as the rules see it, and what a rule says about it. A rule is a pure function
// from files to violations; walking the tree is left to house.h.

#include <compare>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun::tidy {

struct Source {
  std::string path;  // from the root of the repository, with '/'
  std::string text;
};

// What a rule looks at that needs more than one file: every file, in the order of the paths.
using Tree = std::vector<Source>;

// The file with that path, or null.
const Source* source_at(const Tree& tree, std::string_view path);

struct Violation {
  std::string path;
  int line = 0;      // 1 is the first; 0 speaks of the whole file
  std::string rule;  // what is broken, as a clause
  std::string cure;  // what to do instead
  friend auto operator<=>(const Violation&, const Violation&) = default;
};

// `path:line: rule; cure`, as compilers say it, so that editors jump there.
std::string to_text(const Violation& violation);

std::vector<std::string_view> lines_of(std::string_view text);

// A line of a list like tests/tidy/fragments.txt. Comments, from '#' on, and empty lines are none.
struct Row {
  int line = 0;
  std::vector<std::string> words;
};
std::vector<Row> rows_of(std::string_view text);

// The same text, every line in its place, with comments and the insides of literals blanked, so
// that a rule about code is not misled by words about code. Preprocessor lines stay as they are.
std::string code_of(std::string_view text);
// Of such a text, with preprocessor lines blanked too.
std::string without_directives(std::string code);
// The opposite: only what stands in comments.
std::string comments_of(std::string_view text);
// The comments and the insides of literals.
std::string prose_of(std::string_view text);

// Where a path lies.
bool is_cpp(std::string_view path);
bool is_product(std::string_view path);  // in proto, rendezvous, launcher or worker
bool is_test(std::string_view path);     // anything under tests/
bool is_program(std::string_view path);  // the files with a main() that are installed or launched
bool in_io(std::string_view path);       // under an io/ directory
bool touches_torch(std::string_view path);  // worker/torch, worker/examples
std::string_view room_of(std::string_view path);
std::string_view directory_of(std::string_view path);  // with its last '/'

}  // namespace cpprun::tidy
