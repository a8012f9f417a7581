// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where the Unix sockets lie by which cpprunctl finds what runs here: in $XDG_RUNTIME_DIR/cpprun,
// or else in a folder of this user's in $TMPDIR or /tmp. Pure: names out of values.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/environment.h"

namespace cpprun {

// A folder for one user alone, in a place that others may share.
struct DoorFolder {
  std::string parent;
  std::string name;
  // $XDG_RUNTIME_DIR counts only where it is this user's: after su it is somebody else's.
  bool is_parent_own = false;

  std::string path() const { return parent + "/" + name; }
  // In memory, as /run is everywhere: that it hangs needs not be expected.
  bool is_at_hand() const { return parent.starts_with("/run/"); }
  friend bool operator==(const DoorFolder&, const DoorFolder&) = default;
};

// Where a program of that user opens its own: the first that can be had.
std::vector<DoorFolder> own_door_folders(const Environment& environment, std::uint32_t user);
// Where that user's are looked for: those, and where a program with another environment has them.
std::vector<DoorFolder> searched_door_folders(const Environment& environment, std::uint32_t user);
// Where those of everybody are, given the names that are in /run/user and in the folder for
// temporary files.
std::vector<DoorFolder> door_folders_of_all(const Environment& environment,
                                            const std::vector<std::string>& users,
                                            const std::vector<std::string>& temporary);
std::string temporary_folder(const Environment& environment);

// The n-th of that process: "host-123.sock", "host-123-2.sock". The host is in it because machines
// may share the folder, and can only tell of their own sockets whether anybody is there.
std::string door_name(const std::string& host, int pid, int n);
bool is_door(std::string_view file);
bool is_door_of(std::string_view file, const std::string& host);

}  // namespace cpprun
