// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The file names of checkpoints, and which files may be deleted.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun {

// `checkpoint-000000001200.safetensors`: names sort by step in a directory listing.
std::string checkpoint_name(std::int64_t step);

// The step of a finished checkpoint's name; absent for any other name.
std::optional<std::int64_t> checkpoint_step(std::string_view name);

// The steps among these names, newest first.
std::vector<std::int64_t> checkpoint_steps(const std::vector<std::string>& names);

// The files to delete once the checkpoint of `saved_step` is in place: checkpoints up to that step
// except the newest `keep`, and half-written files of killed writers. Later steps stay: the job
// went back to before them and will overwrite them.
std::vector<std::string> superfluous(const std::vector<std::string>& names, std::int64_t saved_step,
                                     int keep);

}  // namespace cpprun
