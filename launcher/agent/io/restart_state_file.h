// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The file of --restart-state, kept by the node that hosts the rendezvous. It is there from the
// start until the job has succeeded: whoever starts the job again, as a scheduler that requeues it,
// goes on with the restarts it has left. Written whole or not at all, by a process beside ours, as
// the disk may hang.

#include <asio/io_context.hpp>
#include <functional>
#include <optional>
#include <string>

#include "launcher/io/disk_helper.h"
#include "proto/result.h"
#include "rendezvous/io/side_processes.h"
#include "rendezvous/job/restart_policy.h"

namespace cpprun::io {

class RestartStateFile {
 public:
  // A sentence about what went wrong.
  using Tell = std::function<void(const std::string& sentence)>;

  // What the job has used before this run; fresh where there is no file. Refuses a file that cannot
  // be read or written, is not a state of this job, or is no file; with the flag's name.
  static Result<RestartState> read(const std::string& path, const std::string& job,
                                   SideProcesses& side);

  // From now on the file follows what the coordinator decides.
  RestartStateFile(asio::io_context& context, SideProcesses& side, std::string path,
                   std::string job, Tell tell);

  void keep(const RestartState& state);
  // The run is over: nothing where the job has succeeded and the file is to go. `done` follows when
  // it is written, or was given up.
  void finish(const std::optional<RestartState>& state, std::function<void()> done);

 private:
  void write(const RestartState& state, std::function<void()> done);
  void told(const std::optional<std::string>& answer);

  Inquiry desk_;
  std::string path_;
  std::string job_;
  Tell tell_;
  std::string last_wrong_;  // said once, until something else is wrong
};

}  // namespace cpprun::io
