// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The owners of jobs: whom their secrets let in (OwnerAccess), and reading these again at SIGHUP
// (OwnerReload).

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "proto/result.h"
#include "rendezvous/client/io/link_security.h"
#include "rendezvous/coordinator/io/coordinator_server.h"
#include "rendezvous/daemon/daemon_options.h"
#include "rendezvous/daemon/owners.h"
#include "rendezvous/logging.h"

namespace cpprun {

// Lets in those who hold the secret of an owner, and keeps each owner's jobs apart from the
// others'.
class OwnerAccess {
 public:
  explicit OwnerAccess(CoordinatorServer& server) : server_(server) {}

  // From here on these are valid, and no others. The first time, which has to be before the server
  // opens its port, OpenSSL is opened; why it cannot be.
  Result<void> take(Owners owners);
  // Whether whoever holds a secret of that owner may have everybody's jobs; without any secret,
  // everybody may.
  bool sees_all(const std::string& owner) const;
  // For links to others, with the secret of whoever may have everybody's jobs; null: there is none.
  Result<std::shared_ptr<SecureContext>> for_dialing() const;

 private:
  CoordinatorServer& server_;
  std::shared_ptr<SecureContext> secure_;
  std::map<std::string, Holder> holders_;  // by the ids of their secrets
  std::unique_ptr<LinkSecurity> dialing_;  // null: nobody may have everybody's jobs
};

// A daemon's secrets while it runs: read at the start, and again at every SIGHUP, all of them or
// none. Whoever is let in is somebody else's business.
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
