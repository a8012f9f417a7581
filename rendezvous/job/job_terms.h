// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The settings that all nodes of a job must agree on (JobTerms), the messages for nodes that do
// not, and the check of a joining node; the settings of its coordinator (JobOptions).

#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "rendezvous/job/restart_policy.h"
#include "rendezvous/job/round.h"

namespace cpprun {

struct JobTerms {
  std::string id;
  int nodes_min = 1;
  int nodes_max = 1;
  RestartRules restarts = {};
  bool store_is_local = false;  // workers reach it through their agents' links
  friend bool operator==(const JobTerms&, const JobTerms&) = default;

  // Whether the job may continue with fewer or more nodes than it started with.
  bool elastic() const { return nodes_min < nodes_max; }
};

// What the coordinator decides about a job.
struct JobOptions {
  Duration lease{};  // silence after which a node's lease expires, as its nodes know it
  Duration
      takeover_window{};  // how much longer its workers live while another coordinator may lead
  Duration status_interval{};  // between two status lines about missing nodes
  Duration last_call{};        // elastic: how long to wait for more nodes once there are enough
  int store_port = 0;
  Duration wall_offset{};  // from this clock to the wall clock, for people; zero: not known
  RestartState restarts_before = {};  // of the hosted job, if it was ended and resumes
  bool standby = false;  // of the hosted job: another node takes over if this one is lost

  // Silence after which a node is lost.
  Duration lost_after() const { return lease + takeover_window; }
};

// The terms of a job that starts with this node.
JobTerms terms_of(const link::Join& join);

// Why a node with these flags cannot be part of this job. Names both sides, so that a reader on
// either machine knows what to change where.
std::optional<std::string> disagreement(const JobTerms& terms, const link::Join& join);

// Whether a joining node can have a seat, or at least a place in the queue for one.

// Why the message cannot come from a genuine agent: its numbers would break a round's arithmetic.
std::optional<std::string> impossible(const link::Join& join);

// For a node that has finished its part of a job unknown here. It asks how that job ended, and must
// not start another one.
std::string unknown_round_of(const link::Join& join);

// The message that the node rank in `join` is taken by `holder`.
std::string seat_taken_text(const JobTerms& terms, const Member& holder, const link::Join& join);

// Why the node cannot join: names both sides, and what to change. Nothing if it can.
std::optional<std::string> join_check(const JobTerms& terms, const Round& round, Duration lease,
                                      const link::Join& join);

}  // namespace cpprun
