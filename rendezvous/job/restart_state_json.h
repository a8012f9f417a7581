// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The file of --restart-state: what a job has used of its restarts, for the run that goes on with
// it after a scheduler's requeue. One JSON object; moments are seconds since 1970, because the
// clock that decides begins anew with each boot:
//
//   {"cpprun_restart_state":1, "job":"slurm-77.0", "restarts_used":2,
//    "spent":{"":[1769000000.5], "hang":[1769000100.0]}, "farthest":{"step":900,
//    "checkpoint_step":800}, "no_progress":0, "host_failures":{"n3":[1769000000.5]}}

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/job/restart_state.h"

namespace cpprun {

// The object alone, as part of another.
nlohmann::json restart_state_value(const RestartState& state, const Moment& moment);
// Fails with the name of the member that is not as it should be.
Result<RestartState> restart_state_of(const nlohmann::json& json, const Moment& moment);

std::string restart_state_json(const RestartState& state, const std::string& job,
                               const Moment& moment);

// Refused with a clause that completes "FILE ...": it is of another job, not ours at all, or of a
// cpprun that came later. Moments that would be in the future count as now.
Result<RestartState> read_restart_state(std::string_view text, const std::string& job,
                                        const Moment& moment);

}  // namespace cpprun
