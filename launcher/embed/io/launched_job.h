// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A job in the program cpprun, which this process has started and whose events it reads.

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/embed/job_event_json.h"
#include "proto/clock.h"
#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun::io {

class LaunchedJob {
 public:
  struct Options {
    std::string program = "cpprun";                   // looked up on PATH if it has no slash
    std::vector<std::string> arguments = {};          // after --events, which this class adds
    Environment environment = {};                     // all variables of cpprun
    std::string directory = {};                       // empty: that of this process
    int input = -1, output = -1, error = -1;          // -1: /dev/null for the input, else our own
    std::function<void(const JobEvent&)> event = {};  // called in a thread of the job
  };
  // Returns when the program is executed. It gets SIGTERM if this process ends.
  static Result<std::unique_ptr<LaunchedJob>> start(Options options);
  // Sends SIGTERM and waits for the end. In the job's own callback it does not wait, and no further
  // callback comes. In a forked child it does nothing.
  ~LaunchedJob();

  bool is_own() const;  // false in a forked child
  pid_t pid() const;
  // The exit code once all events were delivered, 128 + signal if a signal ended cpprun; nothing if
  // the timeout passes first. Never call it in the job's callback.
  std::optional<int> wait(std::optional<Duration> timeout);
  bool is_in_callback() const;
  // Returns an errno, or 0. ESRCH: the job has ended.
  int signal(int signal);

 private:
  class Impl;
  explicit LaunchedJob(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace cpprun::io
