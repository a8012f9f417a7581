// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Unix sockets in a private directory: creating one, probing whether a process listens on one, and
// removing stale ones. All functions access a disk and may block on it.

#include <string>
#include <vector>

#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/status/door_places.h"

namespace cpprun {

// Creates the directory if it is missing; fails if an existing one is not suitable.
Result<void> make_door_directory(const DoorDirectory& directory);
// Creates the directory, removes stale sockets, binds the socket under a name with this host and
// that process id, and listens. Returns its path. The name appears only once the socket is
// listening.
Result<std::string> open_door(int socket, const DoorDirectory& directory, int pid);
// Removes the socket, and the directory if it was the last one in it.
void remove_door(const std::string& path);

struct SocketProbe {
  FileDescriptor socket;  // connected and non-blocking; empty on failure
  int error_number = 0;   // why it failed
  bool is_stale() const;  // no process listens on it, and none ever will
};
SocketProbe probe_socket(const std::string& path);

// The sorted names of the sockets there; empty if the directory is missing. If it exists but cannot
// be read, `why` receives the reason.
std::vector<std::string> doors_in(const DoorDirectory& directory, std::string* why = nullptr);
// Removes this machine's sockets that no process listens on.
void sweep_doors(const DoorDirectory& directory);

}  // namespace cpprun
