#pragma once
// How workers end: how often the job may be restarted, how much time a worker has to stop, and
// which signals end the job.

#include "launcher/config.h"
#include "launcher/setting_reader.h"

namespace cpprun {

void read_ending_settings(SettingReader& reader, Config& config);

}  // namespace cpprun
