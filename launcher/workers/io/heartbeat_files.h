// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The heartbeat files of one attempt's workers (<cpprun/heartbeat_file.h>). They are in memory and
// not on a disk, so that reading one never hangs. They cannot grow and are read by copying, so that
// nothing a worker does to its file can crash this process. Invalid content is ignored.

#include <map>
#include <string>
#include <vector>

#include "launcher/workers/heartbeat_monitor.h"
#include "proto/clock.h"
#include "proto/rank.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

class HeartbeatFiles {
 public:
  // An attempt begins: drop the files of the previous one.
  void begin() { files_.clear(); }
  // Creates the file and returns its path, for the worker and its children. Empty if the machine
  // has no memory for it.
  std::string make(LocalRank local_rank);
  // The readings of all workers that sent a heartbeat, in order of local rank. `now` uses the clock
  // of the readings.
  std::vector<HeartbeatReading> read(TimePoint now) const;

 private:
  std::map<LocalRank, FileDescriptor> files_;
};

}  // namespace cpprun::io
