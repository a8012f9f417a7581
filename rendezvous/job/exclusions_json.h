// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Excluded hosts as JSON: of one job, as part of its record; and of all jobs that are still to come
// at a daemon, as a record of their own, which is kept beside those of jobs and as they are: CBOR,
// with a version. Moments are microseconds since 1970.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/job/exclusions.h"

namespace cpprun {

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

}  // namespace cpprun
