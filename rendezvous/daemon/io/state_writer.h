// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The process that writes to the --state directory: records of jobs, and the logs of their stores
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
#include "rendezvous/daemon/io/shared_ring.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

// The other side of StateJournal: a separate process that writes one file per job, and reads the
// files at the start. A write to a hung disk never returns, and here it blocks no other process.
// The process exits once the daemon is gone and everything is written.
//
// A record is handed over in a message of its own, as a memory file (memfd_create(2)). It arrives
// whole or not at all, even if the sender is killed right after.

// A request to the writer process. `number` is the number of the job.
struct StateRequest {
  enum Kind : std::uint64_t {
    gone,          // remove its record
    record,        // the attached file is its record from now on
    look_at_ring,  // the ring has entries
  };
  std::uint64_t ticket = 0;
  std::uint64_t number = 0;
  std::uint64_t kind = gone;
};
// The reply: errno, or 0 if the request was carried out.
struct StateReply {
  enum Kind : std::uint64_t {
    record,      // to the request with this ticket
    log_failed,  // cannot write the log of a job; `ticket` is the job's number
    logs,        // all ring entries up to this ticket were processed, successfully or not
  };
  std::uint64_t kind = record;
  std::uint64_t ticket = 0;
  std::int64_t error_number = 0;
};

// Runs the writer. `directory` and `requests` (a SOCK_SEQPACKET) are descriptors; `logs` has the
// logs of stores. With `syncs`, a request is answered once it is on disk, and requests that arrived
// meanwhile are flushed together. Once a record was written, the file "alive" is touched every two
// seconds and when the process exits: its time tells when the daemon was last alive.
void write_states(int directory, int requests, SharedRing& logs, bool syncs);

// Sends a request without blocking. Returns 0 or errno. EAGAIN: the writer's queue is full.
int hand_over(int requests, const StateRequest& request, const std::string* record);

// File name of a record: "job-7.state", or with another ending.
std::string state_name(std::uint64_t number, const char* ending);
// Parses the name of a log ("job-7.3.log"); nullopt for other names.
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
  std::vector<File> logs = {};          // newest first within a job, at most two per job
  std::uint64_t last_number = 0;        // highest number of any file that still exists
  std::optional<WallTime> alive = {};   // when the writer was last alive, if known
  std::vector<std::string> wrong = {};  // unreadable files with such a name: "job-7.state is …"
};
// Reads all files of the directory, in the order of their numbers. Removes unfinished writes and
// logs of jobs without a record. Calls `goes_on` after each read, to show that the disk responds.
Result<StateFiles> read_states(const std::string& path, const std::function<void()>& goes_on);

// The kinds of SharedRing::Entry.
enum class LogEntryKind : std::uint64_t {
  begin = 1,  // create the log's file; the bytes are its header line
  add = 2,    // append a chunk
  whole = 3,  // the log can be resumed; remove older ones
  gone = 4,   // remove all logs of the job
  again = 5,  // resume this existing file, truncated to the length in the entry
};

std::string log_name(std::uint64_t number, std::uint64_t generation);

// Writes the logs of stores in the writer process, from entries that the daemon puts into a ring:
// one file per round of a job, such as "job-7.3.log". A log that can be resumed is removed only
// when the next one is complete; until then both are written.
class LogWriter {
 public:
  struct Failed {
    std::uint64_t number = 0;  // the job; nothing more of its log is written
    int error_number = 0;
  };
  struct Worked {
    std::uint64_t through = 0;  // ticket of the last entry processed; 0: none
    bool has_more = false;      // the ring may have more entries, to be processed without delay
    std::vector<Failed> failed = {};
  };

  // With `syncs`, work() flushes what it has processed to disk.
  LogWriter(int directory, bool syncs, SharedRing& ring);

  // Processes a batch of entries.
  Worked work();
  // The daemon is gone. Processes the rest of the ring and writes an end chunk to each log, unless
  // entries are missing.
  void end();

 private:
  struct Log {
    FileDescriptor file;
    bool is_dirty = false;
  };
  int carry_out(const SharedRing::Entry& entry);
  void give_up(std::uint64_t number);
  int begin(const SharedRing::Entry& entry);
  int go_on(const SharedRing::Entry& entry);
  int write(Log& log, const std::string& bytes) const;
  void remove(std::uint64_t number, std::uint64_t below);

  const int directory_;
  const bool syncs_;
  SharedRing& ring_;
  // By job and generation, as long as they can be written: the complete log of each job, and its
  // replacement.
  std::map<std::pair<std::uint64_t, std::uint64_t>, Log> logs_;
  // Jobs that may have other log files in the directory.
  std::set<std::uint64_t> unswept_;
};

// Serialization of StateFiles, from the helper process that reads the directory to the daemon.

// May precede the text any number of times: the reader is still making progress.
constexpr std::string_view still_reading = ".";
std::string text_of(Result<StateFiles> read);
// Fails if the text is incomplete because the reader was killed.
Result<StateFiles> state_files_of(std::string_view text);

}  // namespace cpprun
