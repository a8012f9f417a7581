#pragma once
// The decisions and the words of joining a group. Knows no LibTorch, only what its errors look
// like.

#include <chrono>
#include <string>
#include <vector>

#include "worker/env/context.h"

namespace cpprun {

// Without a launcher's store rank 0 serves one; a world of one needs none at all.
bool serves_store(const Context& context);

enum class JoinStage { store, ranks };

// Why this rank could not join: what it tried, where, what came back, what may help.
std::string join_failure(const Context& context, JoinStage stage, std::chrono::milliseconds waited,
                         const std::string& cause);

// The ranks whose keys a store's time-out complains about (`…keys: /default_pg/0//cpu//0/3`).
std::vector<int> ranks_waited_for(const std::string& cause);

}  // namespace cpprun
