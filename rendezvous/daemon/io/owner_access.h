// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The owners of jobs: authentication by their secrets (OwnerAccess), reading the secrets, and
// reloading them at SIGHUP (OwnerReload).

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proto/result.h"
#include "proto/secure/io/openssl_library.h"
#include "rendezvous/coordinator/io/coordinator_server.h"
#include "rendezvous/daemon/daemon_options.h"
#include "rendezvous/daemon/owners.h"
#include "rendezvous/logging.h"

namespace cpprun {

// Admits clients that hold an owner's secret, and isolates the jobs of each owner from those of the
// others.
class OwnerAccess {
 public:
  explicit OwnerAccess(CoordinatorServer& server) : server_(server) {}

  // Replaces the valid secrets. The first call must come before the server opens its port; it
  // initializes OpenSSL, and fails if that fails.
  Result<void> take(Owners owners);
  // Whether a client with a secret of `owner` has access to the jobs of all owners. Without any
  // secrets every client has.
  bool sees_all(const std::string& owner) const;
  // For outgoing links: uses the secret of the owner that has access to all jobs. Null if the
  // daemon has no secrets; an error if no owner has such access.
  Result<std::shared_ptr<SecureContext>> for_dialing() const;

 private:
  CoordinatorServer& server_;
  std::shared_ptr<SecureContext> secure_;
  std::map<std::string, Holder> holders_;  // by secret id
  std::unique_ptr<LinkSecurity> dialing_;  // null: no owner has access to all jobs
};

// Loads a daemon's secrets at the start and again at every SIGHUP, all of them or none. It does not
// decide which client is admitted.
class OwnerReload {
 public:
  struct Hooks {
    std::function<void(LogLevel, const std::string&)> say;
    // Replaces the secrets in use. The error says why they cannot be used.
    std::function<Result<void>(Owners)> take;
  };

  // From now on SIGHUP no longer ends the process, even if the daemon has no secrets. `options`
  // must outlive this object.
  OwnerReload(asio::io_context& io, const DaemonOptions& options, Hooks hooks);

  // Call this at the start. Reads the secrets and passes them on; after an error nothing is passed
  // on.
  Result<void> load();

 private:
  Result<void> read();
  void wait();
  void reload();

  const DaemonOptions& options_;
  Hooks hooks_;
  asio::signal_set hangup_;
};

struct OwnerFiles {
  Owners owners;                         // by name
  std::vector<std::string> passed_over;  // other files in the directory, which were ignored
};

// Uses the user's own secret file if no other was named and it exists.
void resolve_secret_file(DaemonOptions& options);

// Reads the secrets of --secrets or --secret-file; none if neither was given. One invalid file is
// an error for all of them.
Result<OwnerFiles> read_owner_files(const DaemonOptions& options);

}  // namespace cpprun
