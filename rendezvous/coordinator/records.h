// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the next coordinator has to know, each under the name under which it is kept: of every job,
// and which hosts get no seat in those to come.

#include <map>
#include <string>

#include "proto/clock.h"
#include "rendezvous/coordinator/coordinator.h"

namespace cpprun {

// Empty: there is nothing to know any more. `name`: that of a job that it knows, or
// hosts_record_name.
std::string record_bytes(const Coordinator& coordinator, const std::string& name,
                         const Moment& moment);
std::map<std::string, std::string> all_records(const Coordinator& coordinator,
                                               const Moment& moment);

}  // namespace cpprun
