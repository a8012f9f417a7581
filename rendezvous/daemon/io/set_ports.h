// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// By what a DaemonSet reaches etcd and the other cppruns, and how it is told the time: sockets, or
// what a simulated world has in their place.

#include <asio/io_context.hpp>
#include <functional>
#include <memory>

#include "proto/clock.h"
#include "proto/result.h"
#include "proto/secure/tls.h"
#include "rendezvous/daemon/io/daemon_set.h"
#include "rendezvous/etcd/io/lease_guard.h"
#include "rendezvous/io/side_processes.h"

namespace cpprun {

// `security` is how links to others are secured; null: they are not. `say` is for the log.
SetPorts ports_of(asio::io_context& context, SideProcesses& side, LeaseGuard::Say say,
                  std::function<Result<std::shared_ptr<SecureContext>>()> security);

}  // namespace cpprun
