// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A directory of checkpoints, shared by all ranks. Rank 0 writes each file atomically with a
// checksum, and only the newest few stay. To load, the ranks agree on the newest checkpoint; the
// lowest rank that has it reads it and broadcasts it. So all ranks continue from the same state,
// with or without a shared file system. A damaged checkpoint is skipped with a message in favour of
// the previous one.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/torch/files/state_dict.h"
#include "worker/torch/group/process_group.h"

namespace cpprun {

// The progress of a run. `samples` counts the samples of the current epoch on all ranks together;
// it lets a sampler resume in mid-epoch with any number of ranks.
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
  // Why newer checkpoints were skipped; the same on every rank.
  std::vector<std::string> passed_over;
};

struct CheckpointOptions {
  int keep = 3;  // number of checkpoints to keep
  // How long ranks wait for the writing rank. The group's time-out does not apply.
  std::chrono::milliseconds write_timeout = std::chrono::minutes(60);
};

class Checkpoints {
 public:
  using Options = CheckpointOptions;
  // Creates the directory, if it is missing, on the first save.
  explicit Checkpoints(std::string directory, const Options& options = {});

  // Every rank must call it. Saves the state of rank 0, and of every rank the states of its random
  // generators (CPU and GPU). Returns on every rank only when the file is on disk, because a rank
  // that went ahead would time out in its next collective. Throws FileError on every rank if the
  // write fails.
  void save(const Progress& progress, const StateDict& state, const ProcessGroup& group) const;

  // Every rank must call it; all get the same result. Absent if no rank finds a checkpoint.
  // Restores this rank's random generators; a rank that did not exist at the save keeps its own.
  // Throws FileError if there are checkpoints but none is intact.
  std::optional<Checkpoint> load_newest(const ProcessGroup& group) const;

  // Whether any rank finds a checkpoint. Every rank must call it.
  bool any(const ProcessGroup& group) const;

 private:
  std::vector<std::string> names() const;
  void write(const Progress& progress, const StateDict& whole) const;
  void wait_until_written(const std::string& key, const ProcessGroup& group) const;
  std::string path_of(std::int64_t step) const;

  std::string directory_;
  Options options_;
};

}  // namespace cpprun
