// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Slurm's notation for many hosts and for how many tasks each of them has, as in SLURM_JOB_NODELIST
// and SLURM_TASKS_PER_NODE. Source: the HOSTLIST section of slurm's scontrol(1); tests compare with
// `scontrol show hostnames`.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "proto/result.h"

namespace cpprun {

// More than the largest machine has. A short text can name any number.
inline constexpr std::size_t host_list_max = 131'072;

// Every host, in the order of the list: `gpu[07-09,12]-ib,login` → gpu07-ib … gpu12-ib, login. A
// range keeps the width of its beginning; of several brackets the last counts fastest. Fails for
// what is not in that notation, and for more than `host_list_max`.
Result<std::vector<std::string>> expand_hosts(std::string_view list);

// The tasks of one node: `4(x2),1` and node 2 → 1. Zero if the text does not reach that node or is
// not in this notation.
int tasks_of_node(std::string_view tasks_per_node, int node);

}  // namespace cpprun
