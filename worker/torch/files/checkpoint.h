// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A folder of checkpoints, and what all ranks do together with it. Rank 0 writes, atomically and
// with a checksum, and keeps the newest few. On loading, the ranks look who has the newest one; the
// lowest of those reads it and sends it to everybody, so that no two ranks ever go on from
// different states, with a shared file system or without. A damaged checkpoint is passed over,
// aloud, for the one before it.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/torch/files/state_dict.h"
#include "worker/torch/group/process_group.h"

namespace cpprun {

// How far a run has come. `samples` counts those of the present epoch that all ranks together have
// seen: with it a sampler goes on in mid-epoch under any number of ranks.
struct Progress {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  // since the beginning of the run
  std::int64_t samples = 0;
  friend bool operator==(const Progress&, const Progress&) = default;
};

struct Checkpoint {
  Progress progress;
  StateDict state;  // the user's: model, optimizer, schedule, …
  int world_size = 1;
  std::string path;
  // Why newer checkpoints were passed over; the same on every rank.
  std::vector<std::string> passed_over;
};

struct CheckpointOptions {
  int keep = 3;  // so many stay in the folder
  // Ranks wait for the one that writes as long as this, and not only for the group's time-out.
  std::chrono::milliseconds write_timeout = std::chrono::minutes(60);
};

class Checkpoints {
 public:
  using Options = CheckpointOptions;
  // Creates the folder if need be, when something is saved.
  explicit Checkpoints(std::string folder, const Options& options = {});

  // Every rank calls it. `state` is rank 0's; the states of the random generators, the CPU's and
  // the GPU's, are every rank's. The file is on the disk when it returns, on every rank: who went
  // on would wait in its next collective, and give up there. Throws FileError on every rank if it
  // cannot be written.
  void save(const Progress& progress, const StateDict& state, const ProcessGroup& group) const;

  // Every rank calls it, all get the same. Absent if no rank finds a checkpoint. The random
  // generator is set to what this rank's was; a rank that did not exist then keeps its own. Throws
  // FileError if there are checkpoints, and none that is whole.
  std::optional<Checkpoint> load_newest(const ProcessGroup& group) const;

  // Whether any rank finds a checkpoint here; every rank calls it.
  bool any(const ProcessGroup& group) const;

 private:
  std::vector<std::string> names() const;
  void write(const Progress& progress, const StateDict& whole) const;
  void wait_until_written(const std::string& key, const ProcessGroup& group) const;
  std::string path_of(std::int64_t step) const;

  std::string folder_;
  Options options_;
};

}  // namespace cpprun
