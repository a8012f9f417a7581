// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The folder of --state: made, looked at and locked, for one daemon has it; and what that keeps in
// it of its jobs (StateFolder).

#include <fmt/format.h>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

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
#include "rendezvous/daemon/io/log_ring.h"
#include "rendezvous/daemon/io/state_writer.h"
#include "rendezvous/daemon/state_file.h"
#include "rendezvous/daemon/ticket_ages.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/side_processes.h"
#include "rendezvous/logging.h"

namespace cpprun {

template <class... Arguments>
tl::unexpected<Error> state_refused(fmt::format_string<Arguments...> text,
                                    Arguments&&... arguments) {
  return failure("--state: " + fmt::format(text, std::forward<Arguments>(arguments)...));
}

// Which life of this machine it is; empty where that is not to be known.
std::string own_boot();
// Fails where it cannot be had, or is open to others.
Result<FileDescriptor> open_state_folder(const std::string& path);
// Held by the writer, too: who comes next finds what was handed over last.
Result<FileDescriptor> lock_state_folder(int folder, const std::string& path, Duration patience);

// What cpprund has to know of its jobs, in a folder (--state), for the cpprund that comes after it:
// one file a job, written by a process beside it (state_writer.h). What is handed over is written
// even if the daemon is killed in the next moment; the next daemon waits for that, for the folder
// is locked until it is done. A disk that is full or hangs holds nobody up: that is said, and what
// could not be written is written when it can be.
//
// Where it is synced (--state-sync), whoever hands something over is told when it is on the disk,
// and has not to wait for a disk of which it was said that it does not work.
class StateFolder {
 public:
  using Say = std::function<void(LogLevel level, const std::string& sentence)>;
  struct Options {
    std::string path;
    Duration patience =
        std::chrono::seconds(5);  // for a predecessor, and for each word of the disk
    bool syncs = false;
  };
  // A record that a predecessor has left, and the number of its file; and the log of the store of
  // its round, where there is one that somebody can go on with.
  struct FoundLog {
    std::uint64_t generation = 0;
    std::uint64_t size = 0;  // of its file, as far as that counts
    RoundNumber round{};
    std::string bytes = {};
  };
  struct Found {
    std::uint64_t number = 0;
    std::string record;
    std::optional<FoundLog> log = {};
  };

  // Makes the folder where there is none, and locks it. Fails where it cannot be had, is open to
  // others, is another daemon's, or holds what a later cpprund has written; with the flag's name.
  static Result<std::unique_ptr<StateFolder>> open(asio::io_context& context, SideProcesses& side,
                                                   Options options, Say say);
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;

  std::vector<Found> take_found() { return std::move(found_); }
  // When the predecessor was alive last; nothing: it does not say.
  std::optional<WallTime> last_alive() const { return last_alive_; }
  // That record is this job's.
  void adopt(std::uint64_t number, const std::string& job);
  // It cannot be gone on with; a clause that completes "FILE …" says why. The file stays, by
  // another name.
  void set_aside(std::uint64_t number, const std::string& why);

  // From now on that is the job's record. Gives the number of this change.
  std::uint64_t keep(const std::string& job, const std::string& record);
  // The same; and what was before is not true any more, be it that this cannot be written.
  std::uint64_t keep_only(const std::string& job, const std::string& record);
  std::uint64_t forget(const std::string& job);
  // The jobs that have one.
  std::vector<std::string> kept() const;
  // The last change that nobody has to wait for any more, nor for any before it.
  std::uint64_t written_through() const;
  // That, or is_durable(), may be another now.
  void on_change(std::function<void()> changed) { changed_ = std::move(changed); }
  // What was handed over is written, or will be as far as is known.
  bool is_durable() const { return wrong_.empty() && writer_ >= 0; }
  // Everything that was to be kept until now is in its file, as far as is known.
  bool is_settled() const {
    return outstanding_.empty() && waiting_.empty() && failed_.empty() && broken_logs_.empty() &&
           !are_logs_late();
  }

  // --- the logs of stores (LogFolder) ---
  // For the process that writes; the job is one whose record is kept. Gives the entry's ticket;
  // nothing: there is no room for it, or nobody who writes.
  std::optional<std::uint64_t> put_log(LogOrder order, const std::string& job,
                                       std::uint64_t generation, std::string_view bytes);
  // One that no log was ever of.
  std::uint64_t new_generation() { return ++last_generation_; }
  bool has_room_for_logs() const { return writer_ >= 0 && ring_->is_empty(); }
  // Else whoever adds much at once waits for `written`, and so do those who wait for that: not
  // longer than the disk has to answer.
  bool has_room_for_image();
  std::uint64_t last_log_ticket() const { return last_log_ticket_; }
  // That job's log cannot be written, and why; or it can again.
  void log_broke(const std::string& job, const std::string& why);
  void log_is_written(const std::string& job);
  struct LogCallbacks {
    std::function<void(const std::string& job, const std::string& why)> failed;
    std::function<void(std::uint64_t ticket)> written;  // everything up to that one
    std::function<void()> again;  // some are broken: now and then, as long as they are
  };
  void on_logs(LogCallbacks callbacks) { logs_ = std::move(callbacks); }
  bool syncs() const { return options_.syncs; }
  // Of this life of the machine; empty where it does not say.
  const std::string& boot() const { return boot_; }

  // Of the process that writes; for tests.
  int writer() const { return writer_; }

 private:
  struct Job {
    std::uint64_t number = 0;
    StateOrder::Kind order = StateOrder::gone;  // the newest
    std::optional<std::string> file;            // until it is known to be written
    std::uint64_t ticket = 0;                   // under which that was handed over
    bool waits = false;                         // in waiting_ or failed_
    std::uint64_t unwritten = 0;  // the first of its changes that is not known to be written
  };
  struct Handed {
    std::string job;
    std::chrono::steady_clock::time_point since;
  };

  StateFolder(asio::io_context& context, FileDescriptor folder, FileDescriptor lock,
              Options options, Say say);
  Result<void> begin_writer(SideProcesses& side);
  Result<void> take_logs(StateFiles read);
  void heard_of_logs(const StateAnswer& answer);
  Result<void> look(SideProcesses& side);
  bool are_logs_late() const;
  bool is_prompt() const;
  void await_logs();
  Duration write_patience() const;
  Duration tick_length() const;
  void change(const std::string& job, StateOrder::Kind order, std::optional<std::string> file);
  void hand(const std::string& job);
  void hand_waiting();
  void listen();
  void hear();
  void heard(std::uint64_t ticket, int error_number);
  void tick();
  void look_at_patience();
  void pass_over_sleep();
  void trouble(const std::string& what);

  const Options options_;
  Say say_;
  FileDescriptor folder_;
  FileDescriptor lock_;
  asio::posix::stream_descriptor orders_;
  asio::steady_timer timer_;
  bool is_ticking_ = false;
  TimePoint tick_due_{};
  int writer_ = -1;
  std::vector<Found> found_;
  std::optional<WallTime> last_alive_;
  std::map<std::string, Job> jobs_;
  std::map<std::uint64_t, Handed> outstanding_;  // by ticket
  std::deque<std::string> waiting_;              // jobs that are to be handed over
  std::vector<std::string> failed_;              // that are to wait again, in a moment
  std::uint64_t last_number_ = 0;
  std::uint64_t last_ticket_ = 0;
  std::uint64_t last_change_ = 0;
  std::set<std::uint64_t> unwritten_;  // of the jobs
  std::set<std::string> wrong_;        // what was said of what does not work; empty: all does
  std::unique_ptr<LogRing> ring_;
  std::uint64_t last_log_ticket_ = 0;
  std::uint64_t logs_through_ = 0;  // the last that the writer has looked at
  std::uint64_t last_awaited_ = 0;  // the last for which somebody waits, synced or not
  TicketAges log_ages_;
  std::uint64_t last_generation_ = 0;  // of any log
  const std::string boot_ = own_boot();
  std::set<std::string> broken_logs_;  // of jobs
  LogCallbacks logs_ = {};
  std::function<void()> changed_ = [] {};
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun
