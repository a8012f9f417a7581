// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A cpprund as text for people: whether it leads, who stands by, what is kept, what has changed
// last. Pure: text out of values.

#include <string>
#include <vector>

#include "launcher/control/daemon_view.h"
#include "launcher/table.h"

namespace cpprun {

// Without its warnings.
std::string daemon_text(const DaemonView& daemon);

// A line each.
std::string warnings_text(const std::vector<std::string>& warnings, const Canvas& canvas);

}  // namespace cpprun
