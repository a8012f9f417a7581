// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the kernel's tables in /proc say, taken out of their text. Reading them is io/world_look's.

#include <map>
#include <string>
#include <string_view>

#include "proto/clock.h"

namespace cpprun {

// The served ports of a table like net/tcp, by the inodes of their sockets.
void add_listening(std::string_view table, std::map<std::string, int>& port_of_inode);

// Of a process, from its `stat`, which never waits for it: its command line would, for the lock of
// its memory. Empty where the text is none.
struct ProcessUse {
  std::string name;
  Duration processor_time{};
  std::string stack;  // where it begins: the same in a process that was only forked
};
ProcessUse process_use(const std::string& stat, long ticks_per_second);

// A Python that was executed anew, as multiprocessing does it for mp.spawn; a DataLoader only
// forks.
bool is_spawned(const ProcessUse& child, const ProcessUse& worker);

}  // namespace cpprun
