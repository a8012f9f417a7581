// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A daemon's jobs, from one run of it to the next (--state): what the coordinator wants kept goes
// into the folder, and what another has left there goes on.

#include <asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "proto/result.h"
#include "rendezvous/coordinator/io/coordinator_server.h"
#include "rendezvous/daemon/io/daemon_log.h"
#include "rendezvous/daemon/io/log_folder.h"
#include "rendezvous/daemon/io/state_folder.h"
#include "rendezvous/io/side_processes.h"

namespace cpprun {

class StateRecovery {
 public:
  explicit StateRecovery(DaemonLog& log) : log_(log) {}
  // Where that is empty nothing is kept.
  Result<void> open(asio::io_context& context, SideProcesses& side, const std::string& folder,
                    bool is_synced);
  bool is_open() const { return folder_ != nullptr; }
  // After the server's port is open. Fails where a later cpprund has written what is there.
  Result<void> go_on(CoordinatorServer& server);

  // For the server's callbacks.
  std::uint64_t keep(const std::string& job, const std::string& record);
  void forget(const std::string& job) { folder_->forget(job); }
  // Nothing: nothing is kept.
  std::optional<bool> is_durable() const;

 private:
  DaemonLog& log_;
  std::string path_;
  bool is_synced_ = false;
  std::unique_ptr<StateFolder> folder_;
  std::unique_ptr<LogFolder> logs_;
};

}  // namespace cpprun
