// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Which cpprun this is.

#include <string_view>

namespace cpprun {

// "0.1.0 (commit 5a2c3a1b09e4)", with "-dirty" behind a commit that the sources differ from, or
// "0.1.0 (commit unknown)" where they came without git. The number is that of project() in
// CMakeLists.txt; cmake/write_version.cmake writes the source that says it.
std::string_view version_text();

}  // namespace cpprun
