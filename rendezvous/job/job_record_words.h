// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The words of a JobRecord's JSON, for the two files that write and read it alone.

#include <array>

namespace cpprun::job_record {

inline constexpr int version = 1;
inline constexpr const char* version_key = "cpprund_job";
// In the order of Member::State and of Round::Phase.
inline constexpr std::array states = {"waiting", "running", "succeeded", "drained"};
inline constexpr std::array phases = {"gathering", "sealed", "draining"};

}  // namespace cpprun::job_record
