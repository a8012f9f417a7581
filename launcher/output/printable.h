// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A worker says anything: colours, half characters, NUL, orders to a terminal. What of it is shown
// in a report is text and cannot be taken for anything else. Not `plain_text`: a worker's colours
// are nobody's attack and vanish without a trace, where a stranger's name must show that something
// was in it.

#include <string>
#include <string_view>

namespace cpprun {

// The text without what a terminal would obey: escape sequences are left out, a control becomes a
// blank, what is no UTF-8 or turns the direction of writing becomes a question mark. Line ends and
// tabs stay, a carriage return before a line's end does not.
std::string printable(std::string_view text);

}  // namespace cpprun
