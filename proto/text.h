// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How text that a person or a script wrote is taken apart: blanks, lists, numbers; and what the
// kernel means by a number.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

// Without the blanks and line ends around it.
std::string_view trimmed(std::string_view text);

// The parts between separators, empty ones too; at least one.
std::vector<std::string_view> split(std::string_view text, char between);

// A number and nothing else, but for blanks around it and a plus before it: what scripts paste
// together has them, and Python's int() takes them.
std::optional<int> whole_number(std::string_view text);

// What an errno says, as "No such file or directory".
std::string errno_text(int error_number);

}  // namespace cpprun
