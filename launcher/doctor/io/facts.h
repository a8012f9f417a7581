// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What this machine is, as far as a job cares. Waits for its disks and for the cpprun it asks, and
// for nobody else.

#include "launcher/doctor/host_facts.h"
#include "proto/environment.h"

namespace cpprun::io {

// Without its port and its clock.
doctor::HostFacts gather_facts(const Environment& environment);

}  // namespace cpprun::io
