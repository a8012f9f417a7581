// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// An examination for people, and for scripts.

#include <string>
#include <vector>

#include "launcher/doctor/examination.h"
#include "launcher/doctor/findings.h"
#include "launcher/table.h"

namespace cpprun::doctor {

// A table of the hosts, what was found with its cure, and how many pairs were tried.
std::string doctor_text(const std::vector<ExaminedHost>& hosts,
                        const std::vector<Finding>& findings, const Canvas& canvas);

// The same as JSON, in one line.
std::string doctor_json(const std::vector<ExaminedHost>& hosts,
                        const std::vector<Finding>& findings);

}  // namespace cpprun::doctor
