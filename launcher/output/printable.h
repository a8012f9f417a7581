// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Workers write anything: colours, half characters, NUL, terminal commands. A report shows only
// text, which cannot be taken for anything else. This is not `plain_text`: a worker's colours are
// nobody's attack and vanish without a trace, but a stranger's name must show that something was
// in it.

#include <string>
#include <string_view>

namespace cpprun {

// The text without what a terminal would obey: escape sequences are dropped, a control character
// becomes a blank, and what is not UTF-8 or changes the direction of writing becomes a question
// mark. Newlines and tabs stay; a carriage return before a newline does not.
std::string printable(std::string_view text);

}  // namespace cpprun
