// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where the workers' words go: files, console, filters, prefixes.

#include "launcher/cli/setting_reader.h"
#include "launcher/config.h"

namespace cpprun {

void read_log_settings(SettingReader& reader, Config& config);

}  // namespace cpprun
