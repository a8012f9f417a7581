// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Which of the bugs in this directory is alive; 0: none. Only the copies of the sources into which
// they are planted know it: see plant.sh.

namespace cpprun {

inline int planted_bug = 0;

}  // namespace cpprun
