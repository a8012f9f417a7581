// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The --state directory: creates, checks and locks it, since it belongs to one daemon, and keeps
// the state of that daemon's jobs in it (StateJournal).

#include <fmt/format.h>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/daemon/io/shared_ring.h"
#include "rendezvous/daemon/io/state_writer.h"
#include "rendezvous/daemon/state_file.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/helper_processes.h"
#include "rendezvous/logging.h"

namespace cpprun {

// The age of the oldest of many outstanding tickets. Tickets that were added within 50 ms share one
// entry, so that many tickets cost little.
class TicketAges {
 public:
  // `ticket` was issued now. Tickets must increase.
  void add(std::uint64_t ticket, TimePoint now) {
    last_ = ticket;
    if (!batches_.empty() && now - batches_.back().since < batch_length) return;
    batches_.push_back({ticket, now});
  }
  // All tickets up to `through` are done.
  void done(std::uint64_t through) {
    while (!batches_.empty() && last_of_front() <= through) batches_.pop_front();
  }
  // This process was suspended for `slept`, and could not receive answers. That time does not
  // count.
  void pass_over_sleep(TimePoint now, Duration slept) {
    for (Batch& each : batches_) each.since = std::min(each.since + slept, now);
  }
  // When the oldest outstanding ticket was issued, up to 50 ms too early; nullopt if there is none.
  std::optional<TimePoint> oldest() const {
    return batches_.empty() ? std::nullopt : std::optional(batches_.front().since);
  }

 private:
  static constexpr Duration batch_length = std::chrono::milliseconds(50);
  struct Batch {
    std::uint64_t first = 0;
    TimePoint since;
  };
  std::uint64_t last_of_front() const {
    return batches_.size() > 1 ? batches_[1].first - 1 : last_;
  }

  std::deque<Batch> batches_;
  std::uint64_t last_ = 0;
};

template <class... Arguments>
tl::unexpected<Error> state_refused(fmt::format_string<Arguments...> text,
                                    Arguments&&... arguments) {
  return failure("--state: " + fmt::format(text, std::forward<Arguments>(arguments)...));
}

// The machine's boot id; empty if it cannot be read.
std::string own_boot();
// Creates the directory if necessary. Fails if it cannot be opened or if other users can write to
// it.
Result<FileDescriptor> open_state_directory(const std::string& path);
// The writer process inherits the lock. A successor that gets the lock therefore finds everything
// that was handed over.
Result<FileDescriptor> lock_state_directory(int directory, const std::string& path,
                                            Duration timeout);

// The state of a daemon's jobs in its --state directory, kept for the next cpprund: one file per
// job, written by a separate process (state_writer.h). Everything handed over is written even if
// the daemon is killed right after. The directory stays locked until then, and the next daemon
// waits for the lock. A full or hung disk delays no client: it is logged, and the data is written
// once the disk works again.
//
// With --state-sync, the caller is notified when a change is on disk, and need not wait for a disk
// that is known to have failed.
class StateJournal {
 public:
  using Say = std::function<void(LogLevel level, const std::string& sentence)>;
  struct Options {
    std::string path;
    Duration timeout =
        std::chrono::seconds(5);  // for a predecessor's lock, and for each disk access
    bool syncs = false;
  };
  // The record that a predecessor left for a job, with the number of its file, and the log of its
  // round's store if it can be resumed.
  struct FoundLog {
    std::uint64_t generation = 0;
    std::uint64_t size = 0;  // length of the valid part of its file
    RoundNumber round{};
    std::string bytes = {};
  };
  struct Found {
    std::uint64_t number = 0;
    std::string record;
    std::optional<FoundLog> log = {};
  };

  // Creates the directory if necessary, and locks it. Fails if it cannot be opened, if others can
  // write to it, if another daemon uses it, or if a later version of cpprund wrote to it. The error
  // starts with the flag's name.
  static Result<std::unique_ptr<StateJournal>> open(asio::io_context& context,
                                                    HelperProcesses& side, Options options,
                                                    Say say);
  StateJournal(const StateJournal&) = delete;
  StateJournal& operator=(const StateJournal&) = delete;

  std::vector<Found> take_found() { return std::move(found_); }
  // When the predecessor was last alive; nullopt if unknown.
  std::optional<WallTime> last_alive() const { return last_alive_; }
  // Record `number` belongs to `job`.
  void adopt(std::uint64_t number, const std::string& job);
  // Record `number` cannot be used. `why` completes "FILE …". The file is kept under another name.
  void set_aside(std::uint64_t number, const std::string& why);

  // Sets the job's record. Returns the number of this change.
  std::uint64_t keep(const std::string& job, const std::string& record);
  std::uint64_t forget(const std::string& job);
  // The last change such that neither it nor any earlier change has to be waited for.
  std::uint64_t written_through() const;
  // Called when written_through() or is_durable() may have changed.
  void on_change(std::function<void()> changed) { changed_ = std::move(changed); }
  // No failure is known: what was handed over is written, or will be.
  bool is_durable() const { return wrong_.empty() && writer_ >= 0; }
  // No failure is known, and every record handed over so far is in its file.
  bool is_idle() const {
    return outstanding_.empty() && waiting_.empty() && broken_logs_.empty() && !is_late();
  }

  // --- the logs of stores (LogDirectory) ---
  // Hands an entry to the writer process. The job must have a record. Returns the entry's ticket,
  // or nullopt if there is no room or no writer.
  std::optional<std::uint64_t> put_log(StateEntry kind, const std::string& job,
                                       std::uint64_t generation, std::string_view bytes);
  // A generation that no log has ever had.
  std::uint64_t new_generation() { return ++last_generation_; }
  bool has_room_for_logs() const { return writer_ >= 0 && ring_->is_empty(); }
  // If false, a caller that adds an image waits for `written`. Clients that wait for that image
  // wait with it, but no longer than the timeout of the disk.
  bool has_room_for_image();
  std::uint64_t last_ticket() const { return last_ticket_; }
  // The job's log cannot be written, because of `why`; or it can be written again.
  void log_broke(const std::string& job, const std::string& why);
  void log_is_written(const std::string& job);
  struct LogCallbacks {
    std::function<void(const std::string& job, const std::string& why)> failed;
    std::function<void(std::uint64_t ticket)> written;  // everything up to this ticket
    std::function<void()> again;                        // called repeatedly while any log is broken
  };
  void on_logs(LogCallbacks callbacks) { logs_ = std::move(callbacks); }
  bool syncs() const { return options_.syncs; }
  // The machine's boot id; empty if unknown.
  const std::string& boot() const { return boot_; }

  // Process id of the writer; for tests.
  int writer() const { return writer_; }

 private:
  struct Job {
    std::uint64_t number = 0;
    StateEntry request = StateEntry::record_gone;  // the latest one
    std::string file = {};                         // until it is known to be written
    std::uint64_t ticket = 0;                      // of the latest hand-over
    bool waits = false;                            // is in waiting_
    std::uint64_t unwritten = 0;                   // its first change not known to be written
  };

  StateJournal(asio::io_context& context, FileDescriptor directory, FileDescriptor lock,
               Options options, Say say);
  Result<void> begin_writer(HelperProcesses& side);
  Result<void> take_logs(StateFiles read);
  Result<void> look(HelperProcesses& side);
  bool is_late() const;
  bool is_prompt() const;
  void await_logs();
  Duration write_timeout() const;
  Duration tick_length() const;
  void change(const std::string& job, StateEntry request, std::string file);
  void hand(const std::string& job);
  void wait(const std::string& job);
  void hand_waiting();
  std::optional<std::uint64_t> put(StateEntry kind, std::uint64_t number, std::uint64_t generation,
                                   std::string_view bytes);
  void listen();
  void hear();
  void heard(const StateReply& reply);
  void record_done(std::uint64_t ticket, int error_number);
  void log_failed(std::uint64_t number, int error_number);
  void writer_ended();
  void tick();
  void pass_over_sleep();
  void trouble(const std::string& what);

  const Options options_;
  Say say_;
  FileDescriptor directory_;
  FileDescriptor lock_;
  asio::posix::stream_descriptor socket_;  // to the writer
  asio::steady_timer timer_;
  bool is_ticking_ = false;
  TimePoint tick_due_{};
  int writer_ = -1;
  std::vector<Found> found_;
  std::optional<WallTime> last_alive_;
  std::map<std::string, Job> jobs_;
  std::unique_ptr<SharedRing> ring_;  // everything for the writer
  std::uint64_t last_ticket_ = 0;
  std::uint64_t through_ = 0;       // last ticket that the writer has processed
  std::uint64_t last_awaited_ = 0;  // last ticket that a caller waits for, synced or not
  TicketAges ages_;
  std::map<std::uint64_t, std::string> outstanding_;  // jobs with a record in the ring, by ticket
  std::vector<std::string> waiting_;  // jobs whose record did not fit, or could not be written
  std::uint64_t last_number_ = 0;
  std::uint64_t last_change_ = 0;
  std::set<std::uint64_t> unwritten_;  // first unwritten change of each job
  std::set<std::string> wrong_;        // problems already reported; empty: none
  std::uint64_t last_generation_ = 0;  // highest of any log
  const std::string boot_ = own_boot();
  std::set<std::string> broken_logs_;  // names of jobs
  LogCallbacks logs_ = {};
  std::function<void()> changed_ = [] {};
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun
