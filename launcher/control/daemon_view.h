// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A cpprund as it shows itself, read out of its JSON (docs/operating.md).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cpprun {

struct StandbyView {
  std::string name;
  std::string place;
  std::string version;
  bool is_in_sync = false;
  double bytes_behind = 0;
};

struct ChangeView {
  double time = 0;
  std::string from;  // its name; empty: nobody led before
  std::string to;
  std::string reason;
  std::optional<double> silence = {};
};

struct DaemonView {
  std::string name;
  std::string place;
  std::string version;
  bool leads = true;
  bool has_etcd = false;
  std::string leader;  // empty: nobody leads, as far as is known
  std::string leader_place;
  std::uint64_t epoch = 0;
  double now = 0;  // of the daemon that says it
  std::optional<double> since = {};
  bool is_in_sync = false;
  std::vector<StandbyView> standbys;
  std::optional<bool> is_durable = {};
  bool is_synced = false;
  std::string trouble;
  std::optional<ChangeView> last_change = {};
  std::vector<std::string> warnings;
};

}  // namespace cpprun
