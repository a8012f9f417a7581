#pragma once
// Where the workers' words go: files, console, filters, prefixes.

#include "launcher/config.h"
#include "launcher/setting_reader.h"

namespace cpprun {

void read_log_settings(SettingReader& reader, Config& config);

}  // namespace cpprun
