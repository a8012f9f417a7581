// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A directory of checkpoints, shared by all ranks. Rank 0 writes each file atomically with a
// checksum, and only the newest few stay. To load, the ranks agree on the newest checkpoint; the
// lowest rank that has it reads it and broadcasts it. So all ranks continue from the same state,
// with or without a shared file system. A damaged checkpoint is skipped with a message in favour of
// the previous one.

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
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

// What save_async() does while the checkpoint before is still being written.
enum class WhenBusy { wait, skip };

struct CheckpointOptions {
  int keep = 3;  // number of checkpoints to keep
  WhenBusy when_busy = WhenBusy::wait;
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

  // Like save(), but returns when the state is copied, and a thread of rank 0 writes the copy. The
  // next save waits until that is done, or skips by option: then it returns false, on every rank.
  // An error is thrown by the next call of this object, on every rank. Needs memory for a copy of
  // the state on rank 0.
  bool save_async(const Progress& progress, const StateDict& state,
                  const ProcessGroup& group) const;
  // Every rank must call it, at the latest before it exits: the destructor waits, but reports
  // nothing. Returns when the last checkpoint of save_async() is on disk. Throws FileError.
  void wait(const ProcessGroup& group) const;

  // Every rank must call it; all get the same result. Absent if no rank finds a checkpoint.
  // Restores this rank's random generators; a rank that did not exist at the save keeps its own.
  // Throws FileError if there are checkpoints but none is intact.
  std::optional<Checkpoint> load_newest(const ProcessGroup& group) const;

  // Whether any rank finds a checkpoint. Every rank must call it.
  bool any(const ProcessGroup& group) const;

 private:
  // Returns the error, or an empty string.
  static std::string write(const std::string& directory, int keep, const Progress& progress,
                           const StateDict& whole);
  std::future<std::string> begin_write(const Progress& progress, StateDict whole) const;
  StateDict with_random_states(const Progress& progress, const StateDict& state,
                               const ProcessGroup& group) const;
  void wait_until_written(const std::string& key, const ProcessGroup& group) const;

  struct Background;
  std::string directory_;
  Options options_;
  std::shared_ptr<Background> background_;  // never null
};

}  // namespace cpprun
