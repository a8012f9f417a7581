// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Slurm's notation for lists of hosts and of tasks per host, as in SLURM_JOB_NODELIST and
// SLURM_TASKS_PER_NODE. Source: the HOSTLIST section of slurm's scontrol(1); tests compare with
// `scontrol show hostnames`.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "proto/result.h"

namespace cpprun {

// More than the largest machine has. A bound is needed, since a short text can name any number.
inline constexpr std::size_t host_list_max = 131'072;

// All hosts, in the order of the list: `gpu[07-09,12]-ib,login` → gpu07-ib … gpu12-ib, login. A
// range keeps the width of its start; of several brackets the last varies fastest. Fails for an
// invalid list, and for more than `host_list_max` hosts.
Result<std::vector<std::string>> expand_hosts(std::string_view list);

// The number of tasks of a node: `4(x2),1` and node 2 → 1. Zero if the text does not cover that
// node or is invalid.
int tasks_of_node(std::string_view tasks_per_node, int node);

}  // namespace cpprun
