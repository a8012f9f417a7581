// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The secrets of a daemon, read: all of them, or none.

#include <string>
#include <vector>

#include "proto/result.h"
#include "rendezvous/daemon/daemon_options.h"
#include "rendezvous/daemon/owners.h"

namespace cpprun {

struct OwnerFiles {
  Owners owners;                         // by name
  std::vector<std::string> passed_over;  // what else lies in the folder
};

// Takes the user's own file where no other was named and it is there.
void settle_secret_file(DaemonOptions& options);

// Those of --secrets or --secret-file; none where the daemon has neither. One file that is wrong is
// the reason why there are none.
Result<OwnerFiles> read_owner_files(const DaemonOptions& options);

}  // namespace cpprun
