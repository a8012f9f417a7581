// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What runs on this node: how many workers, of which role, and by which program.

#include "launcher/cli/cli.h"
#include "launcher/cli/setting_reader.h"
#include "launcher/config.h"

namespace cpprun {

void read_worker_settings(SettingReader& reader, const CommandLine& line, Config& config);

}  // namespace cpprun
