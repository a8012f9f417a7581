// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Directories and names of the Unix sockets through which cpprunctl finds running programs:
// $XDG_RUNTIME_DIR/cpprun, else a per-user directory in $TMPDIR or /tmp. Pure functions without
// I/O.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/environment.h"

namespace cpprun {

// A directory private to one user; its parent may be shared.
struct DoorDirectory {
  std::string parent;
  std::string name;
  // Set for $XDG_RUNTIME_DIR. The directory is used only if this user owns the parent: after su the
  // variable still names another user's directory.
  bool is_parent_own = false;

  std::string path() const { return parent + "/" + name; }
  // On tmpfs, as /run always is, so access does not hang.
  bool is_at_hand() const { return parent.starts_with("/run/"); }
  friend bool operator==(const DoorDirectory&, const DoorDirectory&) = default;
};

// Candidates for a program of that user to create its socket in, in order of preference.
std::vector<DoorDirectory> own_door_directories(const Environment& environment, std::uint32_t user);
// Where that user's sockets are searched: those candidates, and the default runtime directory, for
// programs that run with another environment.
std::vector<DoorDirectory> searched_door_directories(const Environment& environment,
                                                     std::uint32_t user);
// Directories of all users, from the names listed in /run/user (`users`) and in the temporary
// directory (`temporary`).
std::vector<DoorDirectory> door_directories_of_all(const Environment& environment,
                                                   const std::vector<std::string>& users,
                                                   const std::vector<std::string>& temporary);
std::string temporary_directory(const Environment& environment);

// The n-th socket of a process: "host-123.sock", "host-123-2.sock". The name includes the host
// because machines may share the directory, and a machine can probe only its own sockets.
std::string door_name(const std::string& host, int pid, int n);
bool is_door(std::string_view file);
bool is_door_of(std::string_view file, const std::string& host);

}  // namespace cpprun
