// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Lets in those who hold the secret of an owner, and keeps each owner's jobs apart from the
// others'.

#include <map>
#include <memory>
#include <string>

#include "proto/result.h"
#include "rendezvous/coordinator/io/coordinator_server.h"
#include "rendezvous/daemon/owners.h"

namespace cpprun {

class OwnerAccess {
 public:
  explicit OwnerAccess(CoordinatorServer& server) : server_(server) {}

  // From here on these are valid, and no others. The first time, which has to be before the server
  // opens its port, OpenSSL is opened; why it cannot be.
  Result<void> take(Owners owners);

 private:
  CoordinatorServer& server_;
  std::shared_ptr<SecureContext> secure_;
  std::map<std::string, Holder> holders_;  // by the ids of their secrets
};

}  // namespace cpprun
