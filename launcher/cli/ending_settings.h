// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How workers end: how often the job may be restarted, how much time a worker has to stop, and
// which signals end the job.

#include "launcher/cli/setting_reader.h"
#include "launcher/config.h"
#include "launcher/text_file.h"

namespace cpprun {

void read_ending_settings(SettingReader& reader, const TextFile& read_file, Config& config);

}  // namespace cpprun
