// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The heartbeat files of one attempt's workers (<cpprun/heartbeat_file.h>). They are memory and
// belong to no disk, so that reading one never hangs; they are sealed at their size, and read by
// copying, so that nothing a worker does to its file is a fault in this process. What is no
// heartbeat is not read.

#include <map>
#include <string>
#include <vector>

#include "launcher/workers/beat_watch.h"
#include "proto/clock.h"
#include "proto/ids.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

class BeatFiles {
 public:
  // An attempt begins: the files of the one before are gone.
  void begin() { files_.clear(); }
  // Its path, for the worker and whatever it starts; empty where the machine has no room for it.
  std::string make(LocalRank local_rank);
  // Of all that have beaten, in order of local rank. `now` by the clock of the readings.
  std::vector<BeatReading> read(TimePoint now) const;

 private:
  std::map<LocalRank, FileDescriptor> files_;
};

}  // namespace cpprun::io
