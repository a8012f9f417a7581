// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The part of the process beside a daemon that writes the logs of stores: a file for each round of
// a job, "job-7.3.log", out of what the daemon puts into a ring. One that somebody could go on with
// is removed when the next is whole, and not before: until then both are written.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/daemon/io/log_ring.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

// The kinds of LogRing::Entry.
enum class LogOrder : std::uint64_t {
  begin = 1,  // a file of that generation, whose first line is these bytes
  add = 2,    // a chunk of that log
  whole = 3,  // what is there can be gone on with: those before it go
  gone = 4,   // all of that job's go
  again = 5,  // the file of that generation, which is there, is gone on with: its first bytes, as
              // many as that says
};

std::string log_name(std::uint64_t number, std::uint64_t generation);

class LogWriter {
 public:
  struct Failed {
    std::uint64_t number = 0;  // the job, whose log cannot be written: nothing more of it is
    int error_number = 0;
  };
  struct Worked {
    std::uint64_t through = 0;  // the ticket of the last entry that was looked at; 0: none was
    bool has_more = false;      // there may be some, and it need not wait
    std::vector<Failed> failed = {};
  };

  // `syncs`: what is worked off is on the disk then.
  LogWriter(int folder, bool syncs, LogRing& ring);

  // A batch of what is in the ring.
  Worked work();
  // Whoever puts things there is gone, and so is all that it has put: that is said in each log.
  void end();

 private:
  struct Log {
    FileDescriptor file;
    bool is_dirty = false;
  };
  int carry_out(const LogRing::Entry& entry);
  void give_up(std::uint64_t number);
  int begin(const LogRing::Entry& entry);
  int go_on(const LogRing::Entry& entry);
  int write(Log& log, const std::string& bytes) const;
  void remove(std::uint64_t number, std::uint64_t below);

  const int folder_;
  const bool syncs_;
  LogRing& ring_;
  // By job and generation, as long as they can be written: what is whole of each, and what is to
  // take its place.
  std::map<std::pair<std::uint64_t, std::uint64_t>, Log> logs_;
  // Jobs of which there may be files beside those.
  std::set<std::uint64_t> unswept_;
};

}  // namespace cpprun
