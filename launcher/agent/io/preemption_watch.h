// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// --preemption-notice: reports that this node will be preempted soon, so that there is time to
// save. The source is a file that appears or gets content, a command that exits with 0, or the end
// of a Slurm job.
//
// A separate process waits for it, because a disk may hang and a command may run for days.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <optional>
#include <string>

#include "proto/environment.h"
#include "proto/result.h"
#include "rendezvous/io/helper_processes.h"

namespace cpprun::io {

struct PreemptionNotice {
  enum class Kind { file, command, slurm };
  Kind kind = Kind::file;
  std::string text;         // path of the file, or command line for sh
  long long slurm_end = 0;  // end of the Slurm job, in seconds since 1970
  int lead_seconds = 0;     // how long before slurm_end to report
};

// Parses the flag's value on this machine. The error says what is wrong with it.
Result<PreemptionNotice> preemption_notice(const std::string& text, const Environment& environment);

class PreemptionWatch {
 public:
  struct Callbacks {
    std::function<void(const std::string& what)> noticed;  // "file /run/preempt"
    std::function<void(const std::string& why)> failed;    // a sentence; no notice will follow
  };
  // `side` must outlive this object.
  PreemptionWatch(asio::io_context& context, HelperProcesses& side, const PreemptionNotice& notice,
                  Callbacks callbacks);
  // Kills the process and the command that it runs.
  ~PreemptionWatch();
  PreemptionWatch(const PreemptionWatch&) = delete;
  PreemptionWatch& operator=(const PreemptionWatch&) = delete;

 private:
  void listen();
  void take(std::string line);

  HelperProcesses& side_;
  Callbacks callbacks_;
  asio::posix::stream_descriptor news_;
  std::string unread_;
  int pid_ = 0;
};

}  // namespace cpprun::io
