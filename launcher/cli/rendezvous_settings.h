// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How many nodes, where they meet, and how long they wait for each other: everything of the command
// line that begins with --rdzv-, --master- or --n….

#include <string>

#include "launcher/cli/setting_reader.h"
#include "launcher/config.h"

namespace cpprun {

// `random_id` is the job's id where it stands alone and was given none.
void read_rendezvous_settings(SettingReader& reader, const std::string& random_id, Config& config);

}  // namespace cpprun
