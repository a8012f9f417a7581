// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a daemon's jobs go on from after its end (--state): their records (StateRecovery), and the
// logs of their stores (LogFolder).

#include <asio/io_context.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "proto/result.h"
#include "rendezvous/coordinator/io/coordinator_server.h"
#include "rendezvous/coordinator/io/store_logs.h"
#include "rendezvous/daemon/io/daemon_log.h"
#include "rendezvous/daemon/io/state_folder.h"
#include "rendezvous/daemon/self_record_json.h"
#include "rendezvous/io/side_processes.h"

namespace cpprun {

// Keeps the logs of stores in the folder of --state, beside the records of their jobs. A log that
// has become long begins anew, with an image, and is kept as it is until that is whole; one that
// the disk did not take begins anew when it takes something again.
class LogFolder : public LogKeeper {
 public:
  struct Callbacks {
    // What nodes are told from now on waits for written() of that number.
    std::function<void(std::uint64_t ticket)> wait_for;
    std::function<void(std::uint64_t through)> written;
    // An image of that job's store is wanted: what there is of it is lost, or only long.
    std::function<void(const std::string& job)> renew;
    std::function<void(const std::string& job)> shorten;
  };
  LogFolder(StateFolder& folder, Callbacks callbacks);

  // What a predecessor has left of that job, which is gone on with.
  void adopt(const std::string& job, const StateFolder::FoundLog& found);
  // Its record is about to go: so does whatever lies there of its store.
  void forget(const std::string& job);

  void begin_log(const std::string& job, RoundNumber round) override;
  void add_image(const std::string& job, std::string_view bytes) override;
  bool has_room_for_image() override { return folder_.has_room_for_image(); }
  void log_is_whole(const std::string& job) override;
  void add_log(const std::string& job, std::string_view bytes) override;
  bool go_on_log(const std::string& job) override;
  void end_log(const std::string& job) override;

 private:
  struct File {
    std::uint64_t generation = 0;
    std::uint64_t bytes = 0;
  };
  struct Log {
    std::optional<File> whole;      // can be gone on with
    std::optional<File> begun;      // has a part of an image
    std::uint64_t image_bytes = 0;  // of the one that is whole, until it was
    bool is_broken = false;         // Invariant: then neither is there.
    bool is_renewed = false;        // another one was asked for, and has not begun
  };
  void put(LogOrder order, const std::string& job, File& file, std::string_view bytes);
  void add(const std::string& job, std::optional<File> Log::*to, std::string_view bytes);
  void broke(const std::string& job, const std::string& why);
  void try_again();

  StateFolder& folder_;
  const Callbacks callbacks_;
  std::map<std::string, Log> logs_;
  std::map<std::string, StateFolder::FoundLog> found_;
};

// A daemon's jobs, from one run of it to the next (--state): what the coordinator wants kept goes
// into the folder, and what another has left there goes on.
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
