// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Between a daemon's JSON and what people are shown.

#include <string_view>

#include "launcher/control/daemon_view.h"
#include "proto/result.h"

namespace cpprun {

Result<DaemonView> daemon_view(std::string_view text);

}  // namespace cpprun
