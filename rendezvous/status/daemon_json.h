// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A cpprund as JSON, for whoever asks (docs/operating.md), and a change of the one that leads as an
// event of docs/events.md. Times are seconds since 1970, lengths are seconds.

#include <string>

#include "proto/moment.h"
#include "rendezvous/status/daemon_snapshot.h"

namespace cpprun {

std::string daemon_json(const DaemonSnapshot& daemon, const Moment& moment);

// One line; `host` is that of the cpprund that says so.
std::string leader_changed_line(const LeaderChange& change, const std::string& host);

}  // namespace cpprun
