// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The number of nodes, where they meet, and how long they wait for each other: all flags that begin
// with --rdzv-, --master- or --n…

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/settings.h"
#include "launcher/config.h"
#include "proto/clock.h"

namespace cpprun {

// `random_id` is used as the job id of a standalone job that was given none.
void read_rendezvous_settings(SettingReader& reader, const std::string& random_id, Config& config);

// --rdzv-conf. torchrun silently accepts unknown keys; here an unknown key is an error, so that a
// typo is found at the start.

// Timeouts from --rdzv-conf; those not given are nullopt.
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

// Parses `k=v,k=v`. Appends errors to `diagnostics`, each starting with `source`.
Timeouts read_rendezvous_conf(std::string_view text, const std::string& source,
                              std::vector<std::string>& diagnostics);

}  // namespace cpprun
