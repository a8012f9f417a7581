// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What all nodes of a job have to agree on, and the sentences for those that do not.

#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/link/message.h"

namespace cpprun {

struct JobTerms {
  std::string id;
  int nodes_min = 1;
  int nodes_max = 1;
  RestartRules restarts = {};
  bool store_is_local = false;  // workers reach it through their agents' links
  friend bool operator==(const JobTerms&, const JobTerms&) = default;

  // Whether the job may go on with fewer or more nodes than it began with.
  bool elastic() const { return nodes_min < nodes_max; }
};

// The terms of a job that begins with this node.
JobTerms terms_of(const link::Join& join);

// Why a node with these flags cannot be part of this job. It names both sides, so that a reader on
// one machine knows what to change on which.
std::optional<std::string> disagreement(const JobTerms& terms, const link::Join& join);

}  // namespace cpprun
