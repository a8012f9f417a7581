// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How many nodes, where they meet, and how long they wait for each other: everything of the command
// line that begins with --rdzv-, --master- or --n…; and --rdzv-conf.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/settings.h"
#include "launcher/config.h"
#include "proto/clock.h"

namespace cpprun {

// `random_id` is the job's id where it stands alone and was given none.
void read_rendezvous_settings(SettingReader& reader, const std::string& random_id, Config& config);

// --rdzv-conf. torchrun silently accepts unknown keys, so a typo there costs a night; here an
// unknown key is a mistake.

// How long to wait for whom; what was not said is left open.
struct Timeouts {
  std::optional<Duration> join_timeout;
  std::optional<Duration> keep_alive_interval;
  std::optional<int> keep_alive_attempts;
  std::optional<Duration> last_call_timeout;
  std::optional<bool> is_host;
  // torchrun's keys for etcd, and two that it lacks.
  EtcdMeeting etcd = {};
  std::string etcd_protocol = {};
  friend bool operator==(const Timeouts&, const Timeouts&) = default;
};

// Reads `k=v,k=v`. Complaints begin with `source` and are appended.
Timeouts read_rendezvous_conf(std::string_view text, const std::string& source,
                              std::vector<std::string>& mistakes);

}  // namespace cpprun
