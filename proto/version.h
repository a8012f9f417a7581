// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The version of cpprun.

#include <string_view>

namespace cpprun {

// "0.1.0 (commit 5a2c3a1b09e4)", with "-dirty" after the commit if the sources differ from it, or
// "0.1.0 (commit unknown)" without git. The number is that of project() in CMakeLists.txt;
// cmake/write_version.cmake generates the source that contains it.
std::string_view version_text();

}  // namespace cpprun
