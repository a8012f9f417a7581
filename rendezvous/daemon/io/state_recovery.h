// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a restarted daemon resumes its jobs from (--state): their records (StateRecovery), and the
// logs of their stores (LogDirectory).

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
#include "rendezvous/daemon/io/state_journal.h"
#include "rendezvous/daemon/state_file.h"
#include "rendezvous/io/helper_processes.h"

namespace cpprun {

// Keeps the logs of stores in the --state directory, beside the records of their jobs. A log that
// has grown long is replaced by a new log that starts with an image; the old one is kept until that
// image is complete. A log that the disk rejected restarts when the disk works again.
class LogDirectory : public LogKeeper {
 public:
  struct Callbacks {
    // Replies to nodes from now on wait until written() reports this ticket.
    std::function<void(std::uint64_t ticket)> wait_for;
    std::function<void(std::uint64_t through)> written;
    // Requests an image of the job's store: renew if its log is lost, shorten if it is only long.
    std::function<void(const std::string& job)> renew;
    std::function<void(const std::string& job)> shorten;
  };
  LogDirectory(StateJournal& directory, Callbacks callbacks);

  // The job is resumed from this log, which a predecessor left.
  void adopt(const std::string& job, const StateJournal::FoundLog& found);
  // The job's record is about to be removed. Removes all logs of its store.
  void forget(const std::string& job);

  void begin_log(const std::string& job, RoundNumber round) override;
  void add_image(const std::string& job, std::string_view bytes) override;
  bool has_room_for_image() override { return directory_.has_room_for_image(); }
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
    std::optional<File> whole;      // can be resumed
    std::optional<File> begun;      // has part of an image
    std::uint64_t image_bytes = 0;  // size of `whole` when its image was complete
    bool is_broken = false;         // Invariant: if set, `whole` and `begun` are empty.
    bool is_renewed = false;        // a new log was requested and has not begun
  };
  void put(StateEntry order, const std::string& job, File& file, std::string_view bytes);
  void add(const std::string& job, std::optional<File> Log::*to, std::string_view bytes);
  void broke(const std::string& job, const std::string& why);
  void try_again();

  StateJournal& directory_;
  const Callbacks callbacks_;
  std::map<std::string, Log> logs_;
  std::map<std::string, StateJournal::FoundLog> found_;
};

// Carries a daemon's jobs from one run to the next (--state): stores what the coordinator wants
// kept in the directory, and resumes jobs that a predecessor left there.
class StateRecovery {
 public:
  explicit StateRecovery(DaemonLog& log) : log_(log) {}
  // Keeps nothing if `directory` is empty.
  Result<void> open(asio::io_context& context, HelperProcesses& side, const std::string& directory,
                    bool is_synced);
  bool is_open() const { return directory_ != nullptr; }
  // Call this after the server's port is open. Reads what a predecessor left, and from now on keeps
  // what the server hands over. Fails if a later version of cpprund or a member of a cluster wrote
  // the state.
  Result<void> load(CoordinatorServer& server);
  // Resumes the jobs that were left.
  void recover(CoordinatorServer& server);

  // Callbacks for the server.
  std::uint64_t keep(const std::string& job, const std::string& record);
  std::uint64_t forget(const std::string& job);
  // nullopt if nothing is kept.
  std::optional<bool> is_durable() const;
  bool is_synced() const { return is_synced_; }

 private:
  std::uint64_t to_wait_for(std::uint64_t change) const;
  void keep_from(CoordinatorServer& server);

  DaemonLog& log_;
  std::string path_;
  bool is_synced_ = false;
  std::unique_ptr<StateJournal> directory_;
  std::unique_ptr<LogDirectory> logs_;
  struct Left {
    JobRecord record;
    std::optional<std::string> store_log;
    std::optional<StateJournal::FoundLog> log;
  };
  std::vector<Exclusions::Entry> hosts_left_;
  std::vector<Left> left_;  // by a predecessor; empty once resumed
};

}  // namespace cpprun
