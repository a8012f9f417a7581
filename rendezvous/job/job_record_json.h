// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Serialized job state: job records and excluded hosts as CBOR, and the file of --restart-state as
// JSON.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/job/exclusions.h"
#include "rendezvous/job/job_record.h"
#include "rendezvous/job/restart_policy.h"

namespace cpprun {

// A JobRecord as bytes: CBOR (RFC 8949) of an object with the members of the struct. Messages of
// agents are stored as the frames in which they came (proto/link/codec). Times are microseconds
// since 1970, because the steady clock restarts with each boot. The format is private to cpprund
// (docs/cpprund.md, --state) and has a version.
std::string job_record_bytes(const JobRecord& record, const ClockPair& moment);

// Fails with a clause that completes "FILE …": it is no record, has a later version, or contains
// impossible values. Past events with a time in the future count as happening now.
Result<JobRecord> read_job_record(std::string_view bytes, const ClockPair& moment);

// When the writer of that record was last alive; `alive` is the time kept in its directory. Nothing
// if that is older than the record: it is then of an earlier writer, whose successor kept no time.
std::optional<TimePoint> writer_alive_at(const JobRecord& record, std::optional<WallTime> alive,
                                         const ClockPair& moment);

// The excluded hosts of all future jobs of a daemon, as a record that is kept beside the job
// records and in the same way. Those of one job are part of its record.

// The record is kept under this name; no job may have it.
inline constexpr const char* hosts_record_name = "\nhosts";

std::string hosts_record_bytes(const std::vector<Exclusions::Entry>& entries,
                               const ClockPair& moment);
// Whether the bytes are such a record at all.
bool is_hosts_record(std::string_view bytes);
// Fails with a clause that completes "the record …".
Result<std::vector<Exclusions::Entry>> read_hosts_record(std::string_view bytes,
                                                         const ClockPair& moment);

// The file of --restart-state: the restarts that a job has used, for the run that resumes it after
// a scheduler's requeue. One JSON object. Times are seconds since 1970, because the steady clock
// restarts with each boot:
//
//   {"cpprun_restart_state":1, "job":"slurm-77.0", "restarts_used":2,
//    "spent":{"":[1769000000.5], "hang":[1769000100.0]}, "farthest":{"step":900,
//    "checkpoint_step":800}, "no_progress":0, "host_failures":{"n3":[1769000000.5]}}

std::string restart_state_json(const RestartState& state, const std::string& job,
                               const ClockPair& moment);

// Fails with a clause that completes "FILE ...": it belongs to another job, is no such file, or was
// written by a later version of cpprun. Times in the future count as now.
Result<RestartState> read_restart_state(std::string_view text, const std::string& job,
                                        const ClockPair& moment);

}  // namespace cpprun
