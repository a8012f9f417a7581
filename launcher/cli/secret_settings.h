// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Whether the nodes of a job share a secret, and where it lies.

#include "launcher/cli/setting_reader.h"
#include "launcher/config.h"

namespace cpprun {

void read_secret_settings(SettingReader& reader, Config& config);

}  // namespace cpprun
