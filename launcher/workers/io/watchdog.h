// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A tiny child of cpprun that outlives it by a moment: when cpprun is gone, for whatever reason,
// the watchdog kills every process of the job that is left, and ends. It knows them by the groups
// it was told of and by being kin (launcher/workers/io/process_tree.h); it never kills by a bare
// pid, which may have been reused. At an ordinary end it is told that nobody is left, and does not
// search.

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "launcher/workers/io/process_tree.h"
#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

class Watchdog {
 public:
  // Forks. To be called at the very start, before there is an event loop or a thread. The first of
  // `folders` that can be made is made there, for our user alone, and removed with all that is in
  // it when this is the end, however that comes: its disk may hang, and then only the watchdog
  // waits for it.
  static Result<Watchdog> start(const Kin& kin, std::vector<std::string> folders = {});

  Watchdog(Watchdog&& other) noexcept = default;
  Watchdog& operator=(Watchdog&&) = delete;
  // Lets go: the watchdog looks around once more by itself and ends, unless it was released. Then
  // its end is waited for, as long as was said there.
  ~Watchdog();

  int pid() const { return pid_; }

  // What became of the folder: 0, an errno, ETIMEDOUT where its disk does not answer in time, or
  // nothing where the watchdog is gone. To be asked before anybody is started, because whoever
  // hangs on a disk watches over nobody.
  std::optional<int> await_folder(Duration patience);
  // After that: the directory that was made, and the errno of the first where it is another.
  std::string folder() const { return folders_.empty() ? std::string() : folders_.front(); }
  int first_refusal() const { return first_refusal_; }

  // Starts a replacement for one that was killed, and tells it what that one knew.
  Result<void> start_again();

  // A worker was started; its process group has the number of its pid.
  void add_group(int pid);
  // That group is gone; its number may be given to somebody else.
  void remove_group(int pid);
  // The fence: cpprun ends its workers before then, or moves it; nothing means none. If it has done
  // neither it is stopped or hangs in the kernel, others are about to get its workers' ranks, and
  // the watchdog kills them.
  void set_deadline(std::optional<TimePoint> fence);
  // It has killed the workers since this was asked last, because that fence was passed.
  bool has_fired() { return fired_ && fired_->exchange(false); }
  // The socket for tools, to be removed when this is the end, however that comes.
  void set_door(const std::string& door);
  // Nobody will look into the folder any more, so the watchdog removes it already now. To be called
  // when nothing of the job runs: its disk may hang, and whoever hangs there watches over nobody.
  void give_up_folder();
  // The job is over and nothing of it runs: the watchdog removes the folder and ends. That is
  // waited for that long when this is destroyed, so that both have their ends at the same time,
  // unless its disk has not answered before. False: it is not there.
  bool release(Duration patience);

 private:
  enum class Folder { to_be_made, known };

  Watchdog(Kin kin, std::vector<std::string> folders)
      : kin_(std::move(kin)), folders_(std::move(folders)) {}
  Result<void> begin(Folder what);

  Kin kin_;
  std::vector<std::string> folders_;  // to be tried; once it is known, the one there is
  int first_refusal_ = 0;
  int pid_ = 0;
  FileDescriptor pipe_;               // to it
  FileDescriptor answer_;             // from it, once: what became of the folder
  bool hangs_ = false;                // it still makes the folder
  std::optional<Duration> patience_;  // with its end; nothing: that is not waited for
  std::set<int> groups_;
  std::optional<TimePoint> fence_;
  std::string door_;
  std::shared_ptr<std::atomic<bool>> fired_;  // in memory that both share; null: there is none
};

}  // namespace cpprun::io
