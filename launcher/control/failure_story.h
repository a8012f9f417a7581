// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What has failed in a job and why, as far as its coordinator knows: the report while it runs.

#include <string>

#include "launcher/control/job_view.h"
#include "launcher/table.h"

namespace cpprun {

std::string failure_story(const JobView& job, const Canvas& canvas);

}  // namespace cpprun
