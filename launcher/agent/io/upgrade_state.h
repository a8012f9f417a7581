// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What one program of an agent's process leaves for the next one (UpgradeState). docs/states.md,
// "Upgrade", has the steps.

#include <sys/resource.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/agent_past.h"
#include "launcher/agent/io/worker_runtime.h"
#include "launcher/report/io/output_files.h"
#include "launcher/report/report.h"
#include "launcher/workers/io/watchdog.h"
#include "launcher/workers/spawn.h"
#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/coordinator/io/carried_coordinator.h"
#include "rendezvous/store/io/store_forwarder.h"

namespace cpprun::io {

// The state of an agent whose workers run, for another program that is executed in its process. The
// descriptors in it stay open there. Private to cpprun.
struct UpgradeState {
  std::string version;        // of the program that has written it
  TimePoint begun{};          // when that program stopped
  std::uint64_t request = 0;  // see link::Upgrade

  // --- this run, as it was at its start
  std::string job;
  std::uint32_t agent_number = 0;
  std::string node_token;
  std::optional<WorkerMark> mark = {};
  WallTime started{};
  int local_world_size = 0;
  std::map<std::string, std::string> config_files = {};  // the text of each that was read
  std::string secrets = {};                              // their lines
  std::optional<rlimit> open_files = {};                 // of the workers
  std::optional<int> niceness = {};                      // of the workers

  // --- what it has done since
  AgentPast agent = {};
  std::vector<int> helpers = {};  // pids
  int watchdogs_started = 0;
  Watchdog::Carried watchdog = {};
  WorkerRuntime::Carried workers = {};
  OutputFiles::Carried output_files = {};
  int restarts = 0;
  std::vector<Attempt> attempts = {};
  std::size_t attempts_left_out = 0;
  std::optional<CarriedCoordinator> coordinator = {};       // if it is in this process
  std::optional<StoreForwarder::Carried> local_store = {};  // if not, and stores are local
};

// The descriptors that the next program needs.
std::vector<int> descriptors_of(const UpgradeState& state);

std::string upgrade_state_bytes(const UpgradeState& state);
// Fails with a clause that completes "the state …", for example if it was written by a version with
// another format.
Result<UpgradeState> read_upgrade_state(std::string_view bytes);

}  // namespace cpprun::io
