// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A rendezvous inside another program: the coordinator of cpprund, in a thread of its own.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "launcher/embed/job_event_json.h"
#include "proto/secure/secret.h"
#include "rendezvous/client/store_error.h"
#include "rendezvous/coordinator/bounds.h"
#include "rendezvous/logging.h"
#include "rendezvous/status/status_access.h"

namespace cpprun::io {

// Changes nothing of the process around it: no signal handler, limit, sandbox or child.
class EmbeddedRendezvous {
 public:
  struct Options {
    std::string host = "127.0.0.1";  // empty: all interfaces
    std::uint16_t port = 0;          // 0: the kernel picks one
    Secrets secrets = {};            // empty: no secret
    StatusAccess status = StatusAccess::none;
    std::size_t jobs_max = bounds::jobs_max;
    std::uint64_t memory_bytes_max = 0;  // 0: a share of the machine's memory
    // Called in the serving thread.
    std::function<void(LogLevel, const std::string& line)> log = {};
    std::function<void(const JobEvent&)> event = {};
  };
  static StoreResult<std::unique_ptr<EmbeddedRendezvous>> open(Options options);
  // Ends every connection and the thread. In a callback that happens after it, and no further
  // callback comes. In a forked child it does nothing.
  ~EmbeddedRendezvous();

  std::uint16_t port() const;
  const std::string& address() const;

 private:
  class Impl;
  explicit EmbeddedRendezvous(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace cpprun::io
