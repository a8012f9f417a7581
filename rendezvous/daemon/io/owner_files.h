// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Reads the secrets of a daemon, all of them or none.

#include <string>
#include <vector>

#include "proto/result.h"
#include "rendezvous/daemon/daemon_options.h"
#include "rendezvous/daemon/owners.h"

namespace cpprun {

struct OwnerFiles {
  Owners owners;                         // by name
  std::vector<std::string> passed_over;  // other files in the directory, which were ignored
};

// Uses the user's own secret file if no other was named and it exists.
void settle_secret_file(DaemonOptions& options);

// Reads the secrets of --secrets or --secret-file; none if neither was given. One invalid file is
// an error for all of them.
Result<OwnerFiles> read_owner_files(const DaemonOptions& options);

}  // namespace cpprun
