// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The process that writes to the --state directory: records of jobs, and the logs of their stores.
// It is the other side of StateJournal, and separate because a write to a hung disk never returns.
// It exits once the daemon is gone and everything is written.
//
// All it has to write are entries of a ring in shared memory, which arrive in order and survive a
// SIGKILL of the daemon. A socket wakes the writer up, tells it that the daemon is gone, and has
// its replies.

#include <chrono>
#include <cstdint>
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
#include "rendezvous/io/helper_processes.h"

namespace cpprun {

// The kinds of SharedRing::Entry.
enum class StateEntry : std::uint64_t {
  begin = 1,        // create the log's file; the bytes are its header line
  add = 2,          // append a chunk to the log
  whole = 3,        // the log can be resumed; remove older ones
  gone = 4,         // remove all logs of the job
  again = 5,        // resume this existing log, truncated to the length in the entry
  record = 6,       // the bytes are the file of the job's record from now on
  record_gone = 7,  // remove the job's record
};

// Wakes the writer up, by a message of this one byte.
enum class StateWake : char {
  later = 'l',  // the ring is no longer empty
  now = 'n',    // it has an entry that should be written without delay
};

struct StateReply {
  enum Kind : std::uint64_t {
    through,        // all entries up to this ticket were processed, successfully or not
    record_failed,  // cannot write the record of this ticket
    log_failed,     // cannot write the log of a job; `ticket` is the job's number
  };
  std::uint64_t kind = through;
  std::uint64_t ticket = 0;
  std::int64_t error_number = 0;
};

// File name of a record: "job-7.state", or with another ending.
std::string state_name(std::uint64_t number, const char* ending);
// File name of a log: "job-7.3.log".
std::string log_name(std::uint64_t number, std::uint64_t generation);
// Parses the name of a log; nullopt for other names.
struct LogName {
  std::uint64_t number = 0;
  std::uint64_t generation = 0;
};
std::optional<LogName> log_of_name(std::string_view name);

// Writes one file per record, and one per round of a job, such as "job-7.3.log". A log that can be
// resumed is removed only when the next one is complete; until then both are written.
class StateWriter {
 public:
  struct Worked {
    bool has_more = false;  // the ring may have more entries, to be processed without delay
    std::vector<StateReply> replies = {};  // failures, then how far it is
  };

  // With `syncs`, work() flushes what it has processed to disk. Neither argument is owned.
  StateWriter(int directory, bool syncs, SharedRing& ring);

  // Runs the process. `socket` is a SOCK_SEQPACKET. Once a record was written, the file "alive" is
  // touched every two seconds and at the end: its time tells when the daemon was last alive.
  void run(int socket);
  // Processes a batch of entries.
  Worked work();
  // The daemon is gone. Processes the rest of the ring and writes an end chunk to each log, unless
  // entries are missing.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  struct Log {
    FileDescriptor file;
    bool is_dirty = false;
  };
  int carry_out(const SharedRing::Entry& entry);
  int replace_record(std::uint64_t number, const std::string& bytes) const;
  int remove_record(std::uint64_t number) const;
  void flush(const std::vector<std::uint64_t>& records, std::vector<StateReply>& failures);
  void renew_alive_file();
  int pause_ms(bool has_more) const;
  void give_up(std::uint64_t number);
  int begin(const SharedRing::Entry& entry);
  int go_on(const SharedRing::Entry& entry);
  int write(Log& log, const std::string& bytes) const;
  void remove_logs(std::uint64_t number, std::uint64_t below);

  const int directory_;
  const bool syncs_;
  SharedRing& ring_;
  // By job and generation, as long as they can be written: the complete log of each job, and its
  // replacement.
  std::map<std::pair<std::uint64_t, std::uint64_t>, Log> logs_;
  // Jobs that may have other log files in the directory.
  std::set<std::uint64_t> unswept_;
  std::optional<Clock::time_point> alive_due_;  // of the next touch of "alive"
};

struct StateFiles {
  struct File {
    std::uint64_t number = 0;
    std::string bytes;
    std::uint64_t generation = 0;  // of a log
  };
  std::vector<File> files = {};         // in the order of their numbers
  std::vector<File> logs = {};          // newest first within a job, at most two per job
  std::uint64_t last_number = 0;        // highest number of any file that still exists
  std::optional<WallTime> alive = {};   // when the writer was last alive, if known
  std::vector<std::string> wrong = {};  // unreadable files with such a name: "job-7.state is …"
};
// Reads all files of the directory, in a helper process: says each of them, and after each read
// that the disk responds. Removes unfinished writes and logs of jobs without a record.
void read_states(const std::string& path, const HelperProcesses::Say& say);
// What read_states() has said. Fails if that is incomplete because the reader was killed.
Result<StateFiles> state_files_of(std::string_view said);

}  // namespace cpprun
