// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// --preemption-notice: says that this node will be taken away soon, so that there is time to save.
// A file that appears or gets a content, a command that exits with 0, or the end of a Slurm job.
//
// A process of its own waits for it: a disk may hang, and a command may run for days.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <optional>
#include <string>

#include "proto/environment.h"
#include "proto/result.h"
#include "rendezvous/io/side_processes.h"

namespace cpprun::io {

struct PreemptionNotice {
  enum class Kind { file, command, slurm };
  Kind kind = Kind::file;
  std::string text;         // the file's path, or the command line for sh
  long long slurm_end = 0;  // of the Slurm job: seconds since 1970
  int lead_seconds = 0;     // before that
};

// What the flag's value means on this machine; or what is wrong with it.
Result<PreemptionNotice> preemption_notice(const std::string& text, const Environment& environment);

class PreemptionWatch {
 public:
  struct Callbacks {
    std::function<void(const std::string& what)> noticed;  // "file /run/preempt"
    std::function<void(const std::string& why)> failed;    // a sentence; no notice will come
  };
  // `side` outlives this.
  PreemptionWatch(asio::io_context& context, SideProcesses& side, const PreemptionNotice& notice,
                  Callbacks callbacks);
  // Ends the process, and the command that it runs.
  ~PreemptionWatch();
  PreemptionWatch(const PreemptionWatch&) = delete;
  PreemptionWatch& operator=(const PreemptionWatch&) = delete;

 private:
  void listen();
  void take(std::string line);

  SideProcesses& side_;
  Callbacks callbacks_;
  asio::posix::stream_descriptor news_;
  std::string unread_;
  int pid_ = 0;
};

}  // namespace cpprun::io
