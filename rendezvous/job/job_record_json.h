// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A JobRecord as bytes: CBOR (RFC 8949) of an object with the members of the struct, in which what
// agents have said stands as the frames in which it came (proto/link/codec). Moments are
// microseconds since 1970, because the clock that decides begins anew with each boot. It is for
// cpprund alone (docs/operating.md, --state), and of a version that it names.

#include <optional>
#include <string>
#include <string_view>

#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/job/job_record.h"

namespace cpprun {

std::string job_record_bytes(const JobRecord& record, const Moment& moment);

// Fails with a clause that completes "FILE …": it is none of these, of a later version, or says
// what cannot be. What would have happened in the future has happened now.
Result<JobRecord> read_job_record(std::string_view bytes, const Moment& moment);

// When the writer of that record was alive last, where `alive` is what its directory says. Nothing
// where that is older than the record: it is of a writer before that, whose successor did not say.
std::optional<TimePoint> writer_alive_at(const JobRecord& record, std::optional<WallTime> alive,
                                         const Moment& moment);

}  // namespace cpprun
