// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What cpprun and a worker that changes rounds (--on-failure=reconfigure) send each other on the
// socket CPPRUN_ROUND_SOCKET, one packet each: words separated by blanks. docs/reconfigure.md has
// the table. They are plain so that a worker in any language can read them.

#include <string>
#include <string_view>

#include "launcher/plan/plan.h"
#include "launcher/workers/supervisor.h"
#include "proto/rank.h"
#include "proto/result.h"

namespace cpprun {

// "place round=3 uuid=3 RANK=1 WORLD_SIZE=4 …": the worker's place in that round, as the variables
// that a worker started for it would have. The uuid is for PyTorch's reconfigure, which accepts
// each number once.
std::string place_message(const WorkerSpec& spec, RoundNumber round);

// "broken round=3": leave that round.
std::string broken_message(RoundNumber round);

// "waits local_rank=0 round=3": that worker has left that round, or has not had a place yet (0).
Result<supervisor::Rejoins> parse_waits(std::string_view message);

}  // namespace cpprun
