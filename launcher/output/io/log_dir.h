// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The directories of a run. With logs, they follow torchrun's layout,
// <root>/<run_id>_<random>/attempt_<n>/<local_rank>/. Without logs, only error files need a place:
// a private directory in $TMPDIR that is removed at the end. The watchdog creates it, since it also
// removes it.

#include <cstddef>
#include <deque>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "launcher/config.h"
#include "launcher/plan/plan.h"
#include "proto/clock.h"
#include "proto/environment.h"
#include "proto/result.h"
#include "rendezvous/io/helper_processes.h"

namespace cpprun::io {

// Candidate paths for the private directory of error files and probes, with new random names: in
// $TMPDIR, then in /tmp in case $TMPDIR does not exist on this node. Empty if neither is needed:
// the error files are with the logs, if those are kept.
//
// Without error files, the job runs as well if it cannot be created.
bool needs_private_directory(const Config& config);
std::vector<std::string> private_directories(const Config& config, const Environment& environment);

// The note that TMPDIR cannot be used and /tmp is used instead.
std::string other_directory_text(const Environment& environment, int error_number);

// A directory that could not be created.
struct DirectoryError {
  std::string reason;
  int error_number = 0;  // errno
};

class LogDir {
 public:
  // Creates the run directory if one is needed. Otherwise `error_directory` is the private
  // directory, which already exists.
  static Result<LogDir> make(const Config& config, const Environment& environment,
                             const std::string& error_directory);

  // The same, done by a helper process because the disk may hang.
  static Result<LogDir> make(const Config& config, const Environment& environment,
                             const std::string& error_directory, HelperProcesses& side);

  // The directories stay when another program is executed in this process: what it needs.
  struct Carried {
    std::string run_directory = {};
    std::string error_directory = {};
    std::deque<std::string> attempts = {};
    bool is_fresh = true;
    friend bool operator==(const Carried&, const Carried&) = default;
  };
  Carried carried() const { return {run_directory_, error_directory_, attempts_, is_fresh_}; }
  static LogDir adopt(const Config& config, Carried carried);

  LogDir(LogDir&& other) noexcept;
  LogDir& operator=(LogDir&&) = delete;
  // Removes the private directory unless it was handed over. Logs stay.
  ~LogDir();
  void hand_over_directory() { error_directory_.clear(); }

  // For NodeFacts. At most one of them is not empty.
  const std::string& run_directory() const { return run_directory_; }
  const std::string& error_directory() const { return error_directory_; }
  // A note to print at the start; may be empty.
  const std::string& note() const { return note_; }

  // Creates an empty directory for each worker. Removes an earlier attempt with the same number,
  // and the oldest attempts beyond the number to keep. Without logs, removes error files of earlier
  // attempts.
  // `is_restart`: these workers are restarted alone, and others may use the earlier directories.
  tl::expected<void, DirectoryError> prepare(const std::vector<WorkerSpec>& specs,
                                             bool is_restart = false);
  // The same for a disk that may hang; fails with ETIMEDOUT.
  tl::expected<void, DirectoryError> prepare(const std::vector<WorkerSpec>& specs,
                                             HelperProcesses& side, Duration timeout,
                                             bool is_restart = false);

 private:
  LogDir() = default;
  void forget_oldest(const std::string& newest);
  void forget_oldest_of_worker(const std::string& newest);

  std::string run_directory_;
  std::string error_directory_;
  std::string note_;
  std::size_t attempts_kept_ = 0;  // 0: all
  // Directories of the existing attempts, oldest first, and of restarts of single workers.
  std::deque<std::string> attempts_;
  bool is_fresh_ = true;  // no attempt so far
};

// The last lines of a file, bounded in number and bytes; empty if the file cannot be read.
std::vector<std::string> read_last_lines(const std::string& path);

// Replaces a file atomically: readers see the old or the new content, never a part.
Result<void> write_whole_file(const std::string& path, const std::string& text);

// The whole file; an error if it is missing or longer than a bound.
Result<std::string> read_small_file(const std::string& path);

}  // namespace cpprun::io
