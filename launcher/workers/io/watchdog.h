// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A small child process that briefly outlives cpprun. When cpprun is gone, for whatever reason, the
// watchdog kills every remaining process of the job and exits. It identifies them by the groups it
// was given and by JobProcesses (launcher/workers/io/process_tree.h). It never kills by a bare pid,
// which may have been reused. After a normal end it is notified that no process is left, and does
// not search.

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/workers/io/process_tree.h"
#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

class Watchdog {
 public:
  // Forks, so call it at the very start, before there is an event loop or a thread. The watchdog
  // creates the first of `directories` that it can, accessible only to our user, and removes it
  // with its content at the end, however that comes. Only the watchdog waits for that disk, which
  // may hang.
  static Result<Watchdog> start(const JobProcesses& job_processes,
                                std::vector<std::string> directories = {});

  // The watchdog stays when another program is executed in this process: what that program needs.
  struct Carried {
    int pid = 0;
    int pipe = -1;
    int fired = -1;  // of the shared memory; -1: unavailable
    std::vector<std::string> directories = {};
    bool hangs = false;
    std::set<int> groups = {};
    std::optional<TimePoint> fence = {};
    std::string door = {};
    friend bool operator==(const Carried&, const Carried&) = default;
  };
  Carried carried() const {
    return {pid_,   pipe_.get(), fired_file_.get(), directories_, hangs_ || answer_, groups_,
            fence_, door_};
  }
  static Watchdog adopt(const JobProcesses& job_processes, Carried carried);

  Watchdog(Watchdog&& other) noexcept = default;
  Watchdog& operator=(Watchdog&&) = delete;
  // Releases the watchdog. Unless release() was called, it searches once more by itself and exits.
  // After release(), the destructor waits for its exit for the time given there.
  ~Watchdog();

  int pid() const { return pid_; }

  // The result for the directory: 0, an errno, ETIMEDOUT if its disk does not respond in time, or
  // none if the watchdog is gone. Call this before any worker is started: a watchdog that hangs on
  // a disk protects nothing.
  std::optional<int> await_directory(Duration timeout);
  // After that: the directory created, and the errno of the first candidate if another one was
  // used.
  std::string directory() const {
    return directories_.empty() ? std::string() : directories_.front();
  }
  int first_refusal() const { return first_refusal_; }

  // Starts a replacement for a killed watchdog, with the same state.
  Result<void> start_again();

  // A worker was started. Its process group id is its pid.
  void add_group(int pid);
  // That group is gone. Its id may be reused.
  void remove_group(int pid);
  // The fence: before then, cpprun kills its workers or moves the fence. None: no fence. If cpprun
  // has done neither, it is stopped or hangs in the kernel. Other nodes are about to get its
  // workers' ranks, so the watchdog kills the workers.
  void set_deadline(std::optional<TimePoint> fence);
  // Whether the watchdog has killed the workers since the last call, because the fence passed.
  bool has_fired() { return fired_ && fired_->exchange(false); }
  // The control socket, which is removed at the end, however that comes.
  void set_door(const std::string& door);
  // The directory is no longer needed, so the watchdog removes it now. Call this when no process of
  // the job runs: its disk may hang, and a watchdog that hangs protects nothing.
  void give_up_directory();
  // The job is over and none of its processes run: the watchdog removes the directory and exits.
  // The destructor waits for that up to the given time, so that both exit together, unless the disk
  // had not responded before. False: the watchdog is gone.
  bool release(Duration timeout);

 private:
  enum class Directories { to_be_made, known };

  Watchdog(JobProcesses job_processes, std::vector<std::string> directories)
      : job_processes_(std::move(job_processes)), directories_(std::move(directories)) {}
  Result<void> begin(Directories what);

  JobProcesses job_processes_;
  std::vector<std::string> directories_;  // the candidates; once known, the one directory created
  int first_refusal_ = 0;
  int pid_ = 0;
  FileDescriptor pipe_;              // to the watchdog
  FileDescriptor answer_;            // from the watchdog, once: the result for the directory
  bool hangs_ = false;               // it is still creating the directory
  std::optional<Duration> timeout_;  // timeout for its exit; none: do not wait for it
  std::set<int> groups_;
  std::optional<TimePoint> fence_;
  std::string door_;
  FileDescriptor fired_file_;                 // of fired_
  std::shared_ptr<std::atomic<bool>> fired_;  // shared memory; null: unavailable
};

}  // namespace cpprun::io
