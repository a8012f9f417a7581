// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A folder of checkpoints, used by all ranks together. Rank 0 writes, atomically and with a
// checksum, and keeps the newest few. To load, the ranks find out who has the newest one; the
// lowest of those reads it and sends it to everybody, so no two ranks ever continue from different
// states, with or without a shared file system. A damaged checkpoint is skipped, with a message,
// for the one before it.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/torch/files/state_dict.h"
#include "worker/torch/group/process_group.h"

namespace cpprun {

// How far a run has come. `samples` counts those of the current epoch that all ranks together have
// seen; with it a sampler continues in mid-epoch with any number of ranks.
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
  // Ranks wait this long for the one that writes, and not just for the group's time-out.
  std::chrono::milliseconds write_timeout = std::chrono::minutes(60);
};

class Checkpoints {
 public:
  using Options = CheckpointOptions;
  // Creates the folder if need be, when something is saved.
  explicit Checkpoints(std::string folder, const Options& options = {});

  // Every rank calls it. `state` is rank 0's; the states of the random generators, the CPU's and
  // the GPU's, are every rank's. The file is on disk when it returns, on every rank: a rank that
  // went on would wait in its next collective and give up there. Throws FileError on every rank if
  // it cannot be written.
  void save(const Progress& progress, const StateDict& state, const ProcessGroup& group) const;

  // Every rank calls it and gets the same. Absent if no rank finds a checkpoint. The random
  // generator is set to this rank's saved state; a rank that did not exist then keeps its own.
  // Throws FileError if there are checkpoints but none is intact.
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
