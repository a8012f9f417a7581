// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Unix sockets in a private folder: making one, asking whether anybody is behind one, and sweeping
// those behind which nobody is any more. All of it looks at a disk and may hang with it.

#include <string>
#include <vector>

#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/status/door_places.h"

namespace cpprun {

// Makes the folder where it is not there, and fails where it is none for this.
Result<void> make_door_folder(const DoorFolder& folder);
// Makes the folder, sweeps it, and binds that socket in it, listening, under a name with this
// machine and that process id. Gives its path. Nobody finds it there before it listens.
Result<std::string> open_door(int socket, const DoorFolder& folder, int pid);
// And its folder, where it was the last in it.
void remove_door(const std::string& path);

struct Knock {
  FileDescriptor socket;  // connected, and never blocks; none: nobody opened
  int error_number = 0;   // why
  bool is_stale() const;  // nobody is there, and nobody will ever be
};
Knock knock(const std::string& path);

// The names of the sockets there, in order; none where there is no such folder. `why` says what
// was wrong, where there is one that may not be read.
std::vector<std::string> doors_in(const DoorFolder& folder, std::string* why = nullptr);
// Removes those of this machine behind which nobody is.
void sweep_doors(const DoorFolder& folder);

}  // namespace cpprun
