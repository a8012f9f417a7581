// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The names of checkpoints in their folder, and which of them may go.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

// `checkpoint-000000001200.safetensors`: a folder's listing is in the order of the steps.
std::string checkpoint_name(std::int64_t step);

// Absent for a name that is no finished checkpoint's.
std::optional<std::int64_t> checkpoint_step(std::string_view name);

// The steps among these names, newest first.
std::vector<std::int64_t> checkpoint_steps(const std::vector<std::string>& names);

// What is not needed once the checkpoint of `saved_step` is in its place: all but the newest `keep`
// up to that step, and what a writer that was killed has left half-written. Later steps stay: they
// belong to a future that the job went back from, and are overwritten when it gets there.
std::vector<std::string> superfluous(const std::vector<std::string>& names, std::int64_t saved_step,
                                     int keep);

}  // namespace cpprun
