// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "rendezvous/status/host_names.h"

namespace cpprun {

// The names of this machine beside those; see host_names(). Reads two small files and waits for
// nothing else.
HostNames own_host_names(HostNames given);

}  // namespace cpprun
