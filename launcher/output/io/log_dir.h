// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The folders of a run. If logs are wanted they follow torchrun's layout,
// <root>/<run_id>_<random>/attempt_<n>/<local_rank>/; if not, only error files need a place: a
// private folder in $TMPDIR that is removed at the end. Whoever removes it makes it, too: the
// watchdog.

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
#include "rendezvous/io/side_processes.h"

namespace cpprun::io {

// Where only error files need a place: the private directory's path, new and random, in $TMPDIR and
// then in /tmp, for a node without the former. Empty where logs are kept, or nothing at all.
std::vector<std::string> private_folders(const Config& config, const Environment& environment);

// "TMPDIR=/scratch cannot be used (No such file or directory), /tmp is": a note.
std::string other_folder_text(const Environment& environment, int error_number);

// A folder that could not be made.
struct FolderError {
  std::string reason;
  int error_number = 0;  // errno
};

class LogDir {
 public:
  // Makes the run folder, if there is to be one. Where there is none, `error_folder` is the private
  // one, which is there already.
  static Result<LogDir> make(const Config& config, const Environment& environment,
                             const std::string& error_folder);

  // The same where its disk may hang: a process beside ours makes it.
  static Result<LogDir> make(const Config& config, const Environment& environment,
                             const std::string& error_folder, SideProcesses& side);

  LogDir(LogDir&& other) noexcept;
  LogDir& operator=(LogDir&&) = delete;
  // Removes the private folder, unless somebody else does; logs stay.
  ~LogDir();
  void hand_over_folder() { error_folder_.clear(); }

  // For NodeFacts. At most one of them is not empty.
  const std::string& run_folder() const { return run_folder_; }
  const std::string& error_folder() const { return error_folder_; }
  // Worth saying at the start; may be empty.
  const std::string& note() const { return note_; }

  // Makes the folder of each worker, empty: an earlier attempt of the same number is removed, and
  // so are the oldest ones where only some are to be kept. Without logs no earlier attempt's error
  // file stays.
  tl::expected<void, FolderError> prepare(const std::vector<WorkerSpec>& specs);
  // The same where its disk may hang: then ETIMEDOUT.
  tl::expected<void, FolderError> prepare(const std::vector<WorkerSpec>& specs, SideProcesses& side,
                                          Duration patience);

 private:
  LogDir() = default;
  void forget_oldest(const std::string& newest);

  std::string run_folder_;
  std::string error_folder_;
  std::string note_;
  std::size_t attempts_kept_ = 0;     // 0: all
  std::deque<std::string> attempts_;  // the folders of those there are, oldest first
  bool is_fresh_ = true;              // there was no attempt yet
};

// The last lines of a file, bounded in number and bytes; empty where there is none.
std::vector<std::string> read_last_lines(const std::string& path);

// Replaces a file in one step: a reader finds the old content or the new, never half of it.
Result<void> write_whole_file(const std::string& path, const std::string& text);

// The whole file up to a bound; an error when it is missing or longer.
Result<std::string> read_small_file(const std::string& path);

}  // namespace cpprun::io
