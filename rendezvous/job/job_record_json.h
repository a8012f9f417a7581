// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What is kept of jobs, as bytes: their records and the excluded hosts as CBOR, and the file of
// --restart-state as JSON.

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/job/exclusions.h"
#include "rendezvous/job/job.h"
#include "rendezvous/job/restart_policy.h"

namespace cpprun {

// A JobRecord as bytes: CBOR (RFC 8949) of an object with the members of the struct, in which what
// agents have said stands as the frames in which it came (proto/link/codec). Moments are
// microseconds since 1970, because the clock that decides begins anew with each boot. It is for
// cpprund alone (docs/operating.md, --state), and of a version that it names.
std::string job_record_bytes(const JobRecord& record, const Moment& moment);

// Fails with a clause that completes "FILE …": it is none of these, of a later version, or says
// what cannot be. What would have happened in the future has happened now.
Result<JobRecord> read_job_record(std::string_view bytes, const Moment& moment);

// When the writer of that record was alive last, where `alive` is what its directory says. Nothing
// where that is older than the record: it is of a writer before that, whose successor did not say.
std::optional<TimePoint> writer_alive_at(const JobRecord& record, std::optional<WallTime> alive,
                                         const Moment& moment);

// Excluded hosts as JSON: of one job, as part of its record; and of all jobs that are still to come
// at a daemon, as a record of their own, which is kept beside those of jobs and as they are: CBOR,
// with a version. Moments are microseconds since 1970.

nlohmann::json exclusions_value(const std::vector<Exclusions::Entry>& entries,
                                const Moment& moment);
// Fails with what is not as it should be.
Result<std::vector<Exclusions::Entry>> exclusions_of(const nlohmann::json& json,
                                                     const Moment& moment);

// Under this name it is kept; no job may be called that.
inline constexpr const char* hosts_record_name = "\nhosts";

std::string hosts_record_bytes(const std::vector<Exclusions::Entry>& entries, const Moment& moment);
// Whether that is one at all.
bool is_hosts_record(std::string_view bytes);
// Fails with a clause that completes "the record …".
Result<std::vector<Exclusions::Entry>> read_hosts_record(std::string_view bytes,
                                                         const Moment& moment);

// The file of --restart-state: what a job has used of its restarts, for the run that goes on with
// it after a scheduler's requeue. One JSON object; moments are seconds since 1970, because the
// clock that decides begins anew with each boot:
//
//   {"cpprun_restart_state":1, "job":"slurm-77.0", "restarts_used":2,
//    "spent":{"":[1769000000.5], "hang":[1769000100.0]}, "farthest":{"step":900,
//    "checkpoint_step":800}, "no_progress":0, "host_failures":{"n3":[1769000000.5]}}

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
