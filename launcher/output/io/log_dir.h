// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The folders of a run. If logs are wanted they follow torchrun's layout,
// <root>/<run_id>_<random>/attempt_<n>/<local_rank>/; if not, only error files need a place: a
// private folder in $TMPDIR that is removed at the end.

#include <cstddef>
#include <deque>
#include <functional>
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

// A folder that could not be made.
struct FolderError {
  std::string reason;
  int error_number = 0;  // errno
};

class LogDir {
 public:
  // Makes the run folder, or the private one. Nothing at all with --log-dir=/dev/null. The private
  // one's path is announced before it is there, so that whoever tidies up after us knows of it from
  // the start.
  using Announce = std::function<void(const std::string&)>;
  static Result<LogDir> make(const Config& config, const Environment& environment,
                             const Announce& announce = {});

  // The same where its disk may hang: a process beside ours makes it.
  static Result<LogDir> make(const Config& config, const Environment& environment,
                             const Announce& announce, SideProcesses& side);

  LogDir(LogDir&& other) noexcept;
  LogDir& operator=(LogDir&&) = delete;
  // Removes the private folder, unless somebody else does; logs stay.
  ~LogDir();
  void hand_over_folder() { error_folder_.clear(); }

  // For NodeFacts. At most one of them is not empty.
  const std::string& run_folder() const { return run_folder_; }
  const std::string& error_folder() const { return error_folder_; }

  // Makes the folder of each worker, empty: an earlier attempt of the same number is removed, and
  // so are the oldest ones where only some are to be kept.
  tl::expected<void, FolderError> prepare(const std::vector<WorkerSpec>& specs);
  // The same where its disk may hang: then ETIMEDOUT.
  tl::expected<void, FolderError> prepare(const std::vector<WorkerSpec>& specs, SideProcesses& side,
                                          Duration patience);

 private:
  LogDir() = default;
  static Result<LogDir> make_private(const Config& config, const Environment& environment,
                                     const Announce& announce, SideProcesses& side);
  void forget_oldest(const std::string& newest);

  std::string run_folder_;
  std::string error_folder_;
  std::size_t attempts_kept_ = 0;     // 0: all
  std::deque<std::string> attempts_;  // the folders of those there are, oldest first
  bool was_just_made_ = false;        // and the first attempt follows at once
};

// The last lines of a file, bounded in number and bytes; empty where there is none.
std::vector<std::string> read_last_lines(const std::string& path);

// Replaces a file in one step: a reader finds the old content or the new, never half of it.
Result<void> write_whole_file(const std::string& path, const std::string& text);

// The whole file up to a bound; an error when it is missing or longer.
Result<std::string> read_small_file(const std::string& path);

}  // namespace cpprun::io
