// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Who may use a store that is local to a node: workers of the user that started cpprun. The port is
// one of loopback, which every user of the machine reaches.

#include "proto/result.h"
#include "rendezvous/io/socket_owner.h"

namespace cpprun {

// A connection to a port of ours at loopback, as that port sees it. Fails with the reason why
// whoever began it may not.
Result<void> admit_worker(const SocketPair& pair);

}  // namespace cpprun
