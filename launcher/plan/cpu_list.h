// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Sets of processors in the kernel's own spelling: "0-2,4,6-7".

#include <set>
#include <string>
#include <string_view>

namespace cpprun {

using CpuSet = std::set<int>;

// Skips what is not a number: the kernel writes none, and no other text comes here.
CpuSet parse_cpu_list(std::string_view text);

std::string to_cpu_list(const CpuSet& cpus);

}  // namespace cpprun
