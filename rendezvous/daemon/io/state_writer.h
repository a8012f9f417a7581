// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The other side of StateFolder: a process of its own that writes what it is handed, one file a
// job, and reads them again at the start. A write to a hung disk never returns; here nobody else
// waits for it. It ends when whoever hands it things is gone and everything is written.
//
// A record is handed over as a memory file (memfd_create(2)) in a message of its own: whole or not
// at all, whatever becomes of the sender in the next moment.

#include <cstdint>
#include <string>
#include <vector>

#include "proto/result.h"

namespace cpprun {

// To the process: what comes with it is the record of the job with that number from now on, or
// there is none any more.
struct StateOrder {
  std::uint64_t ticket = 0;
  std::uint64_t number = 0;
  std::uint64_t is_kept = 0;  // 1: a record comes with it
};
// And back: errno, or 0 where it is done.
struct StateAnswer {
  std::uint64_t ticket = 0;
  std::int64_t error_number = 0;
};

// `folder` and `orders` (a SOCK_SEQPACKET) are descriptors. `syncs`: nothing is answered before it
// is on the disk; what has come meanwhile goes there together.
void write_states(int folder, int orders, bool syncs);

// Hands that over without waiting; 0, or errno. EAGAIN: it has enough to do.
int hand_over(int orders, const StateOrder& order, const std::string* record);

// The file of a number: "job-7.state", and its siblings.
std::string state_name(std::uint64_t number, const char* ending);

struct StateFiles {
  struct File {
    std::uint64_t number = 0;
    std::string bytes;
  };
  std::vector<File> files;
  std::uint64_t last_number = 0;        // of any file that was ever called so and is still there
  std::vector<std::string> wrong = {};  // what is called like one and is none: "job-7.state is …"
};
// All that are in that folder, in the order of their numbers. What a write has left unfinished is
// removed.
Result<StateFiles> read_states(const std::string& path);

}  // namespace cpprun
