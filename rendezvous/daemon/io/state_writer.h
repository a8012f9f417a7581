// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The process that writes into the folder of --state: records of jobs, and the logs of their stores
// (LogWriter).

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/daemon/io/log_ring.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

// The other side of StateFolder: a process of its own that writes what it is handed, one file a
// job, and reads them again at the start. A write to a hung disk never returns; here nobody else
// waits for it. It ends when whoever hands it things is gone and everything is written.
//
// A record is handed over as a memory file (memfd_create(2)) in a message of its own: whole or not
// at all, whatever becomes of the sender in the next moment.

// To the process, about the job with that number.
struct StateOrder {
  enum Kind : std::uint64_t {
    gone,          // it has no record any more
    record,        // what comes with it is its record from now on
    only_that,     // the same; where that cannot be written it has none, and not the one before
    look_at_ring,  // there is something in the ring
  };
  std::uint64_t ticket = 0;
  std::uint64_t number = 0;
  std::uint64_t kind = gone;
};
// And back: errno, or 0 where it is done.
struct StateAnswer {
  enum Kind : std::uint64_t {
    record,      // that order
    log_failed,  // the log of the job whose number the ticket is cannot be written
    logs,        // everything that was put into the ring up to that ticket, for better or worse
  };
  std::uint64_t kind = record;
  std::uint64_t ticket = 0;
  std::int64_t error_number = 0;
};

// `folder` and `orders` (a SOCK_SEQPACKET) are descriptors; the logs of stores come through `logs`.
// `syncs`: nothing is answered before it is on the disk; what has come meanwhile goes there
// together. Once a record was written, the time of the file "alive" is renewed every two seconds,
// and when this process ends: it says when the daemon was alive last.
void write_states(int folder, int orders, LogRing& logs, bool syncs);

// Hands that over without waiting; 0, or errno. EAGAIN: it has enough to do.
int hand_over(int orders, const StateOrder& order, const std::string* record);

// The file of a number: "job-7.state", and its siblings.
std::string state_name(std::uint64_t number, const char* ending);
// Which log is called so ("job-7.3.log"); nothing: none is.
struct LogName {
  std::uint64_t number = 0;
  std::uint64_t generation = 0;
};
std::optional<LogName> log_of_name(std::string_view name);

struct StateFiles {
  struct File {
    std::uint64_t number = 0;
    std::string bytes;
    std::uint64_t generation = 0;  // of a log
  };
  std::vector<File> files;
  std::vector<File> logs = {};          // of each number the newest first, and two at most
  std::uint64_t last_number = 0;        // of any file that was ever called so and is still there
  std::optional<WallTime> alive = {};   // when their writer was alive last, where known
  std::vector<std::string> wrong = {};  // what is called like one and is none: "job-7.state is …"
};
// All that are in that folder, in the order of their numbers. What a write has left unfinished is
// removed, and so are the logs of jobs that have no record. `goes_on` is called now and then, as
// long as the disk answers.
Result<StateFiles> read_states(const std::string& path, const std::function<void()>& goes_on);

// The kinds of LogRing::Entry.
enum class LogOrder : std::uint64_t {
  begin = 1,  // a file of that generation, whose first line is these bytes
  add = 2,    // a chunk of that log
  whole = 3,  // what is there can be gone on with: those before it go
  gone = 4,   // all of that job's go
  again = 5,  // the file of that generation, which is there, is gone on with: its first bytes, as
              // many as that says
};

std::string log_name(std::uint64_t number, std::uint64_t generation);

// The part of the process beside a daemon that writes the logs of stores: a file for each round of
// a job, "job-7.3.log", out of what the daemon puts into a ring. One that somebody could go on with
// is removed when the next is whole, and not before: until then both are written.
class LogWriter {
 public:
  struct Failed {
    std::uint64_t number = 0;  // the job, whose log cannot be written: nothing more of it is
    int error_number = 0;
  };
  struct Worked {
    std::uint64_t through = 0;  // the ticket of the last entry that was looked at; 0: none was
    bool has_more = false;      // there may be some, and it need not wait
    std::vector<Failed> failed = {};
  };

  // `syncs`: what is worked off is on the disk then.
  LogWriter(int folder, bool syncs, LogRing& ring);

  // A batch of what is in the ring.
  Worked work();
  // Whoever puts things there is gone, and so is all that it has put: that is said in each log.
  void end();

 private:
  struct Log {
    FileDescriptor file;
    bool is_dirty = false;
  };
  int carry_out(const LogRing::Entry& entry);
  void give_up(std::uint64_t number);
  int begin(const LogRing::Entry& entry);
  int go_on(const LogRing::Entry& entry);
  int write(Log& log, const std::string& bytes) const;
  void remove(std::uint64_t number, std::uint64_t below);

  const int folder_;
  const bool syncs_;
  LogRing& ring_;
  // By job and generation, as long as they can be written: what is whole of each, and what is to
  // take its place.
  std::map<std::pair<std::uint64_t, std::uint64_t>, Log> logs_;
  // Jobs of which there may be files beside those.
  std::set<std::uint64_t> unswept_;
};

// What a folder holds, as text from the process that has read it to the one that has asked.

// May be said before the text, any number of times: it is on its way.
constexpr std::string_view still_reading = ".";
std::string text_of(Result<StateFiles> read);
// Whoever read may have been ended in the middle: then it counts as not read at all.
Result<StateFiles> state_files_of(std::string_view text);

}  // namespace cpprun
