// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A daemon's secrets while it runs: read at the start, and again at every SIGHUP, all of them or
// none. Whoever is let in is somebody else's business.

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <functional>
#include <string>

#include "proto/result.h"
#include "rendezvous/daemon/daemon_options.h"
#include "rendezvous/daemon/owners.h"
#include "rendezvous/logging.h"

namespace cpprun {

class OwnerReload {
 public:
  struct Hooks {
    std::function<void(LogLevel, const std::string&)> say;
    // In place of those that were taken before; why they cannot be.
    std::function<Result<void>(Owners)> take;
  };

  // Takes SIGHUP from now on: without secrets, too, it ends no daemon. `options` outlive it.
  OwnerReload(asio::io_context& io, const DaemonOptions& options, Hooks hooks);

  // At the start: reads and hands on what there is. Where something is wrong nothing is taken.
  Result<void> load();

 private:
  Result<void> read();
  void wait();
  void reload();

  const DaemonOptions& options_;
  Hooks hooks_;
  asio::signal_set hangup_;
};

}  // namespace cpprun
