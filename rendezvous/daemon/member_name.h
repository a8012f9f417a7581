// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What one of several cppruns is called among the others: its name, and which of its lives this is.
// What one of them has in its memory is gone when it is begun anew: then it is another one, which
// nobody takes for the one that had everything. One that has found everything in its folder
// (--state) is the same.

#include <string>
#include <string_view>

namespace cpprun {

inline constexpr char life_mark = '#';

// "a#5f2a9c01d3e4b677"
std::string member_name(std::string_view name, std::string_view life);
// "a", as people have named it.
std::string_view called(std::string_view member);

}  // namespace cpprun
