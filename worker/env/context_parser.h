// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Reads a Context from an environment that is handed in, so that every case can be tried as a
// value.

#include <string>

#include "proto/environment.h"
#include "proto/result.h"
#include "worker/env/context.h"

namespace cpprun {

// Every mistake is reported at once, each with the variable, its value and what would be right.
Result<Context> parse_context(const Environment& environment);

// The first host of a Slurm node list: `gpu[07-09,12],login` → `gpu07`.
std::string first_slurm_host(const std::string& node_list);

// The tasks of one node in Slurm's run-length notation: `4(x2),1` and node 2 → 1. Zero if the text
// does not reach that node or is not in this notation.
int slurm_tasks_of_node(const std::string& tasks_per_node, int node);

}  // namespace cpprun
