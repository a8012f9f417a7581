// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The words of joining a group that did not succeed. Knows no LibTorch, only what its errors look
// like.

#include <chrono>
#include <string>
#include <vector>

#include "worker/torch/group/placement.h"

namespace cpprun {

enum class JoinStage { store, ranks };

// Why this rank could not join: what it tried, where, what came back, what may help. `missing` are
// the ranks that are known not to have come, if `cause` does not say it itself.
std::string join_failure(const Placement& placement, JoinStage stage,
                         std::chrono::milliseconds waited, const std::string& cause,
                         const std::vector<int>& missing = {});

// Why this rank must not join: its number was already taken in this store.
std::string taken_rank(const Placement& placement);

// The ranks whose keys a store's time-out complains about (`…keys: /default_pg/0//cpu//0/3`).
std::vector<int> ranks_waited_for(const std::string& cause);

}  // namespace cpprun
