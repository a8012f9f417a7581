// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a job says in words of its own, to the nodes that wait and of those that no longer speak.

#include <optional>
#include <string>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "rendezvous/job/coordinator_actions.h"
#include "rendezvous/job/job_terms.h"
#include "rendezvous/job/round.h"

namespace cpprun {

// Stands in for the words of a node that says nothing any more.
link::Failure failure_of_lost(const Member& member, Duration lease, WallTime time = {});

coordinator::NodeChange change_of(const Member& member, coordinator::NodeChange::Kind kind,
                                  std::string reason = {});

// Why a job waits, as far as its round does not know.
struct Waits {
  std::string reason;                      // why the last round broke
  std::string master = {};                 // why the coordinator's own node does not come
  std::optional<Duration> pause = {};      // that is left before a restart
  std::optional<Duration> last_call = {};  // that is left for more nodes to come
};

// Another node takes itself for the master of our job.
std::string second_master_text(const link::WhoHosts& other, const std::string& peer);

// Whose address it is that a worker could not connect to: "… cannot connect to 10.0.0.6 (beta); …".
std::string with_host_of_address(std::string message, const Round& round);

// "job \"train\"", or "the job" where it has the id that torchrun gives to jobs without one,
// "none".
std::string quoted_job(const std::string& id);

// What is being waited for: a pause, the workers' ends, or more nodes.
std::string status_of(const Round& round, const JobTerms& terms, const Waits& waits);

}  // namespace cpprun
