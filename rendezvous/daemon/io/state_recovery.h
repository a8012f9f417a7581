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
#include "rendezvous/daemon/self_record_json.h"
#include "rendezvous/io/side_processes.h"

namespace cpprun {

class StateRecovery {
 public:
  explicit StateRecovery(DaemonLog& log) : log_(log) {}
  // Where that is empty nothing is kept.
  Result<void> open(asio::io_context& context, SideProcesses& side, const std::string& folder,
                    bool is_synced);
  bool is_open() const { return folder_ != nullptr; }
  // After the server's port is open: what was left is looked at, and kept from here on is what the
  // server says. Fails where a later cpprund has written what is there, or one of another set
  // (objection_to()).
  Result<void> load(CoordinatorServer& server, const std::string& set);
  // What one of several has left of itself; nothing: it has not, or nobody can read it.
  const std::optional<SelfRecord>& found_self() const { return self_; }
  // From now on that is what the next one finds, behind what was kept before.
  void keep_self(SelfRecord record);
  // It goes on. False: nothing was left.
  bool recover(CoordinatorServer& server);
  // It does not, nor does what this one has kept itself: another cpprund has led since, and its
  // jobs are that one's.
  void forget_all();

  // For the server's callbacks.
  std::uint64_t keep(const std::string& job, const std::string& record);
  std::uint64_t forget(const std::string& job);
  // Nothing: nothing is kept.
  std::optional<bool> is_durable() const;
  bool is_synced() const { return is_synced_; }

 private:
  std::uint64_t to_wait_for(std::uint64_t change) const;
  void keep_from(CoordinatorServer& server);

  DaemonLog& log_;
  std::string path_;
  bool is_synced_ = false;
  std::unique_ptr<StateFolder> folder_;
  std::unique_ptr<LogFolder> logs_;
  struct Left {
    JobRecord record;
    std::optional<std::string> store_log;
    std::optional<StateFolder::FoundLog> log;
  };
  std::optional<SelfRecord> self_;
  std::vector<Exclusions::Entry> hosts_left_;
  std::vector<Left> left_;  // by a predecessor, as long as nobody has gone on with it
};

}  // namespace cpprun
