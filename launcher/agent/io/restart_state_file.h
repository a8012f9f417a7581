// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The --restart-state file, kept by the node that hosts the rendezvous. It exists from the start
// until the job succeeds. If the job is started again, for example requeued by a scheduler, it
// resumes with the restarts it has left. A helper process writes it atomically, because the disk
// may hang.

#include <asio/io_context.hpp>
#include <functional>
#include <optional>
#include <string>

#include "launcher/io/disk_helper.h"
#include "proto/result.h"
#include "rendezvous/io/helper_processes.h"
#include "rendezvous/job/restart_policy.h"

namespace cpprun::io {

class RestartStateFile {
 public:
  // `sentence` says what went wrong.
  using Tell = std::function<void(const std::string& sentence)>;

  // What the job used before this run; a fresh state if there is no file. Rejects a file that
  // cannot be read or written, is not a state of this job, or is not a regular file. The error
  // starts with the flag's name.
  static Result<RestartState> read(const std::string& path, const std::string& job,
                                   HelperProcesses& side);

  // From now on the file follows the coordinator's state.
  RestartStateFile(asio::io_context& context, HelperProcesses& side, std::string path,
                   std::string job, Tell tell);

  void keep(const RestartState& state);
  // The run is over. No state: the job succeeded, so the file is removed. Calls `done` when the
  // file is written, or writing it was given up.
  void finish(const std::optional<RestartState>& state, std::function<void()> done);

 private:
  void write(const RestartState& state, std::function<void()> done);
  void told(const std::optional<std::string>& answer);

  AsyncTask desk_;
  std::string path_;
  std::string job_;
  Tell tell_;
  std::string last_wrong_;  // reported once, until the error changes
};

}  // namespace cpprun::io
