// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The number of the active bug of this directory; 0: none. Only the patched copies of the sources
// use it: see plant.sh.

namespace cpprun {

inline int planted_bug = 0;

}  // namespace cpprun
