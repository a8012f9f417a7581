// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What people read of a job and its nodes: lines of the log, reasons, events.

#include <cstddef>
#include <optional>
#include <string>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "rendezvous/job/coordinator_actions.h"
#include "rendezvous/job/job_terms.h"
#include "rendezvous/job/round.h"

namespace cpprun {

// The failure of a node that no longer responds, in place of a report of its own.
link::Failure failure_of_lost(const Member& member, Duration lease, WallTime time = {});

coordinator::NodeChange change_of(const Member& member, coordinator::NodeChange::Kind kind,
                                  std::string reason = {});

// Reasons for waiting that the round does not know.
struct Waits {
  std::string reason;                      // why the last round broke
  std::string master = {};                 // why the coordinator's own node has not joined
  std::optional<Duration> pause = {};      // left before a restart
  std::optional<Duration> last_call = {};  // left for more nodes to join
};

// The message for another node that considers itself the master of our job.
std::string second_master_text(const link::WhoHosts& other, const std::string& peer);

// Adds the host's name to the address a worker could not connect to: "… cannot connect to 10.0.0.6
// (beta); …".
std::string with_host_of_address(std::string message, const Round& round);

// "job \"train\"", or "the job" if its id is "none", which torchrun gives to jobs without one.
std::string quoted_job(const std::string& id);

// "1 node", "2 nodes".
std::string node_count_text(std::size_t count);

// What the job waits for: a pause, the end of workers, or more nodes.
std::string status_of(const Round& round, const JobTerms& terms, const Waits& waits);

}  // namespace cpprun
