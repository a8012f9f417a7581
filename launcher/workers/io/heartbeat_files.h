// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The heartbeat files of one attempt's workers (<cpprun/heartbeat_file.h>). They are in memory and
// not on a disk, so that reading one never hangs. They cannot grow and are read by copying, so that
// nothing a worker does to its file can crash this process. Invalid content is ignored.

#include <algorithm>
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
  // An attempt begins: drop the files of the previous one, except those of workers that remain.
  void begin(const std::vector<LocalRank>& remaining = {}) {
    std::erase_if(files_, [&](const auto& each) {
      return std::ranges::find(remaining, each.first) == remaining.end();
    });
  }
  // Creates the file and returns its path, for the worker and its children. Empty if the machine
  // has no memory for it.
  std::string make(LocalRank local_rank);
  // Their descriptors, and taking them over in another program of this process: workers name them
  // by number, so they stay the same.
  std::map<LocalRank, int> descriptors() const {
    std::map<LocalRank, int> descriptors;
    for (const auto& [local_rank, file] : files_) descriptors[local_rank] = file.get();
    return descriptors;
  }
  void adopt(LocalRank local_rank, int descriptor) {
    files_.insert_or_assign(local_rank, FileDescriptor(descriptor));
  }
  // The readings of all workers that sent a heartbeat, in order of local rank. `now` uses the clock
  // of the readings.
  std::vector<HeartbeatReading> read(TimePoint now) const;

 private:
  std::map<LocalRank, FileDescriptor> files_;
};

}  // namespace cpprun::io
