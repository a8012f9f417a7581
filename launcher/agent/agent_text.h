// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Messages with which an agent gives up, and those that say how long it keeps trying.

#include <optional>
#include <string>
#include <system_error>

#include "launcher/workers/supervisor.h"
#include "proto/clock.h"

namespace cpprun {

// "598 s left"
std::string seconds_left(TimePoint now, TimePoint deadline);

// No message of the last `silence` got a reply. `why` is the last reason the link gave.
std::string master_gone_text(const std::string& where, const std::string& why, Duration silence);
// The same for a cluster of cpprunds at these endpoints.
std::string no_leader_text(const std::string& places, const std::string& why, Duration silence);
// This process did not run for that long, and the lease expired.
std::string slept_text(Duration lease, Duration silence);

// This node was suspended for nearly its lease, or longer, and waits for confirmation of its seat.
std::string doubt_text(Duration silence, Duration lease);

// Adds a hint to `reason` if the port is in use by another process.
std::string with_port_hint(const std::string& reason);

// All workers of this node exited with 0. It keeps asking how the job ended.
std::string asks_text(const std::string& reason, Duration timeout);
// It gave up: how the job ended is unknown.
std::string done_text(const std::string& reason);
// The job ended while this node had no seat: it never had one, or had lost it.
std::string not_needed_text(const std::string& reason);

// Interrupted by a signal before this node had a seat.
std::string interrupted_text(int signal, bool no_master);

// That master does not know --restart-scope=worker.
std::string no_worker_restarts_text(const std::string& where);

// The worker survived SIGKILL.
std::string unkillable_text(const Outcome& outcome);

// The private directory for error files could not be created. `error_number`: the errno; none if
// the process that creates it was killed.
std::string no_directory_text(const std::string& directory, std::optional<int> error_number);

// The job was stopped and resumes. Reports the restarts used before this run, as read from the file
// at `path`.
std::string goes_on_text(int restarts_used, const std::string& path);

// A resource that the system denied to cpprun itself, with a hint where one is known.
std::string refused_text(const std::error_code& refused);

}  // namespace cpprun
