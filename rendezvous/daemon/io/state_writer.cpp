// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/state_writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "proto/text.h"
#include "rendezvous/daemon/state_file.h"

namespace cpprun {

namespace {

constexpr const char* ready = "state";
constexpr const char* unfinished = "new";
constexpr const char* alive_name = "alive";
constexpr off_t file_bytes_max = 64 * 1024 * 1024;
// An image is as large as its store, and up to twice as much follows it (LogDirectory).
constexpr off_t log_bytes_max = off_t{8} * 1024 * 1024 * 1024;
constexpr int batch_max = 256;
// Delay before entries of logs are written, so that they are written in batches. They are safe in
// the ring.
constexpr int ring_pause_ms = 10;
// The precision to which the length of an outage is known, at the cost of one inode write per
// interval.
constexpr auto alive_interval = std::chrono::seconds(2);

// The number in "job-7.ENDING".
std::optional<std::uint64_t> number_of(std::string_view name, std::string_view ending) {
  if (!name.starts_with("job-")) return std::nullopt;
  const auto number = leading_number<std::uint64_t>(name.substr(4));
  // Only the canonical form counts, not "job-007".
  return number && name == fmt::format("job-{}.{}", *number, ending) ? number : std::nullopt;
}

// Visits every file with the name of a log. False if the directory cannot be read.
bool visit_logs(int directory, const std::function<void(const LogName&)>& visit) {
  FileDescriptor anew(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(anew ? ::fdopendir(anew.get()) : nullptr,
                                                    [](DIR* open) { return ::closedir(open); });
  if (entries == nullptr) return false;
  (void)anew.release();  // closedir() closes it
  while (const dirent* const entry = ::readdir(entries.get())) {
    if (const auto log = log_of_name(entry->d_name)) visit(*log);
  }
  return true;
}

// Blocks until there is room: the daemon counts the replies, so none may be dropped, and it never
// blocks itself. An error is ignored, since the daemon may be gone and the work continues.
void answer(int socket, const StateReply& reply) {
  while (::send(socket, &reply, sizeof reply, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

// nullopt: the daemon is gone.
std::optional<StateWake> take_wake(int socket) {
  auto wake = StateWake::later;
  while (true) {
    char byte = 0;
    const auto got = ::recv(socket, &byte, sizeof byte, MSG_DONTWAIT);
    if (got == sizeof byte && StateWake{byte} == StateWake::now) wake = StateWake::now;
    if (got < 0 && errno == EAGAIN) return wake;
    if (got == 0 || (got < 0 && errno != EINTR)) return std::nullopt;
  }
}

}  // namespace

std::string state_name(std::uint64_t number, const char* ending) {
  return fmt::format("job-{}.{}", number, ending);
}

std::string log_name(std::uint64_t number, std::uint64_t generation) {
  return fmt::format("job-{}.{}.log", number, generation);
}

std::optional<LogName> log_of_name(std::string_view name) {
  const auto dot = name.find('.');
  if (!name.starts_with("job-") || !name.ends_with(".log") || dot == name.npos) return std::nullopt;
  LogName log;
  std::from_chars(name.data() + 4, name.data() + dot, log.number);
  std::from_chars(name.data() + dot + 1, name.data() + name.size(), log.generation);
  // Only the canonical form counts, not "job-007.1.log".
  return name == log_name(log.number, log.generation) ? std::optional(log) : std::nullopt;
}

// --- the loop ------------------------------------------------------------------------------------

StateWriter::StateWriter(int directory, bool syncs, SharedRing& ring)
    : directory_(directory), syncs_(syncs), ring_(ring) {
  (void)visit_logs(directory_, [this](const LogName& log) { unswept_.insert(log.number); });
}

void StateWriter::run(int socket) {
  bool has_more = false;
  while (true) {
    if (alive_due_ && Clock::now() >= *alive_due_) renew_alive_file();
    pollfd watched{.fd = socket, .events = POLLIN, .revents = 0};
    const int woken = ::poll(&watched, 1, pause_ms(has_more));
    if (woken < 0 && errno == EINTR) continue;
    if (woken > 0) {
      const auto wake = take_wake(socket);
      if (!wake) break;
      if (*wake == StateWake::later && !syncs_) continue;
    }
    const Worked worked = work();
    for (const StateReply& each : worked.replies) answer(socket, each);
    has_more = worked.has_more;
  }
  if (alive_due_) renew_alive_file();
  end();
}

// How long to wait for a wake-up; -1: without a limit.
int StateWriter::pause_ms(bool has_more) const {
  if (!ring_.is_empty()) return syncs_ || has_more ? 0 : ring_pause_ms;
  if (!alive_due_) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*alive_due_ - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

// Best effort: a failing disk is reported when records are written.
void StateWriter::renew_alive_file() {
  alive_due_ = Clock::now() + alive_interval;
  const FileDescriptor file(::openat(
      directory_, alive_name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const timespec times[2] = {now, now};
  if (file) (void)::futimens(file.get(), times);
}

StateWriter::Worked StateWriter::work() {
  Worked worked;
  worked.has_more = true;
  std::uint64_t through = 0;
  bool has_record = false;
  std::vector<std::uint64_t> records;  // tickets of those that were written
  for (int left = batch_max; left > 0; --left) {
    const auto entry = ring_.next();
    if (!entry) {
      worked.has_more = false;
      break;
    }
    const bool is_record = StateEntry{entry->kind} >= StateEntry::record;
    has_record = has_record || is_record;
    const int wrong = carry_out(*entry);
    if (wrong != 0 && is_record) {
      worked.replies.push_back({StateReply::record_failed, entry->ticket, wrong});
    } else if (wrong != 0) {
      unswept_.insert(entry->number);
      worked.replies.push_back({StateReply::log_failed, entry->number, wrong});
      give_up(entry->number);
    } else if (is_record) {
      records.push_back(entry->ticket);
    }
    through = entry->ticket;
    ring_.drop();
  }
  if (through == 0) return worked;
  if (syncs_) flush(records, worked.replies);
  if (has_record) renew_alive_file();
  worked.replies.push_back({StateReply::through, through, 0});
  return worked;
}

// Flushes the logs and the names of all files.
void StateWriter::flush(const std::vector<std::uint64_t>& records,
                        std::vector<StateReply>& failures) {
  std::set<std::uint64_t> wrong;
  for (auto& [name, log] : logs_) {
    const bool is_wrong = std::exchange(log.is_dirty, false) && ::fdatasync(log.file.get()) != 0;
    if (is_wrong && wrong.insert(name.first).second) {
      failures.push_back({StateReply::log_failed, name.first, errno});
    }
  }
  for (const std::uint64_t number : wrong) give_up(number);
  if (::fsync(directory_) == 0) return;
  // A lost name of a log loses only that log.
  const int error_number = errno;
  for (const std::uint64_t ticket : records) {
    failures.push_back({StateReply::record_failed, ticket, error_number});
  }
}

// Returns 0 or errno.
int StateWriter::carry_out(const SharedRing::Entry& entry) {
  switch (StateEntry{entry.kind}) {
    case StateEntry::begin:
      return begin(entry);
    case StateEntry::again:
      return go_on(entry);
    case StateEntry::gone:
      give_up(entry.number);
      return 0;
    case StateEntry::record:
      return replace_record(entry.number, entry.bytes);
    case StateEntry::record_gone:
      return remove_record(entry.number);
    case StateEntry::add:
    case StateEntry::whole:
      break;
  }
  const auto found = logs_.find({entry.number, entry.generation});
  // After a failure, entries are ignored until a new log begins.
  if (found == logs_.end()) return 0;
  const bool is_whole = StateEntry{entry.kind} == StateEntry::whole;
  const LogChunk kind = is_whole ? LogChunk::whole : LogChunk::bytes;
  const int wrong = write(found->second, log_chunk(kind, entry.bytes));
  if (wrong == 0 && is_whole) remove_logs(entry.number, entry.generation);
  return wrong;
}

// --- records -------------------------------------------------------------------------------------

// After an error the previous file is still there.
int StateWriter::replace_record(std::uint64_t number, const std::string& bytes) const {
  const std::string name = state_name(number, unfinished);
  const FileDescriptor file(::openat(directory_, name.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return errno;
  const bool is_replaced =
      write_all(file.get(), bytes) == bytes.size() && (!syncs_ || ::fsync(file.get()) == 0) &&
      ::renameat(directory_, name.c_str(), directory_, state_name(number, ready).c_str()) == 0;
  const int wrong = is_replaced ? 0 : errno;
  if (wrong != 0) ::unlinkat(directory_, name.c_str(), 0);
  return wrong;
}

int StateWriter::remove_record(std::uint64_t number) const {
  const bool is_gone = ::unlinkat(directory_, state_name(number, ready).c_str(), 0) == 0;
  return is_gone || errno == ENOENT ? 0 : errno;
}

// --- logs ----------------------------------------------------------------------------------------

// Removes all logs of the job: none can be resumed, so none should be found.
void StateWriter::give_up(std::uint64_t number) {
  remove_logs(number, std::numeric_limits<std::uint64_t>::max());
}

int StateWriter::begin(const SharedRing::Entry& entry) {
  Log log;
  const std::string name = log_name(entry.number, entry.generation);
  log.file.reset(::openat(directory_, name.c_str(),
                          O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!log.file) return errno;
  const int wrong = write(log, entry.bytes);
  if (wrong != 0) return wrong;
  logs_[{entry.number, entry.generation}] = std::move(log);
  return 0;
}

// The file now has no end chunk until end() writes one.
int StateWriter::go_on(const SharedRing::Entry& entry) {
  Log log;
  log.file.reset(::openat(directory_, log_name(entry.number, entry.generation).c_str(),
                          O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
  if (!log.file) return errno;
  off_t size = 0;
  std::from_chars(entry.bytes.data(), entry.bytes.data() + entry.bytes.size(), size);
  if (::ftruncate(log.file.get(), size) != 0) return errno;
  const int wrong = write(log, log_chunk(LogChunk::again, {}));
  if (wrong != 0) return wrong;
  logs_[{entry.number, entry.generation}] = std::move(log);
  return 0;
}

int StateWriter::write(Log& log, const std::string& bytes) const {
  log.is_dirty = true;
  return write_all(log.file.get(), bytes) < bytes.size() ? errno : 0;
}

// Removes the job's logs with a generation below `below`. Logs written by this process are known.
// The directory, which may have many thousands of files, is read only if there may be others.
void StateWriter::remove_logs(std::uint64_t number, std::uint64_t below) {
  const auto unlink = [this](const LogName& log) {
    (void)::unlinkat(directory_, log_name(log.number, log.generation).c_str(),
                     0);  // best effort: without an end chunk
  };
  const auto first = logs_.lower_bound({number, 0});
  const auto last = logs_.lower_bound({number, below});
  for (auto each = first; each != last; ++each) unlink({each->first.first, each->first.second});
  logs_.erase(first, last);
  if (!unswept_.contains(number)) return;
  const bool is_swept = visit_logs(directory_, [&](const LogName& log) {
    if (log.number == number && log.generation < below) unlink(log);
  });
  if (is_swept) unswept_.erase(number);
}

void StateWriter::end() {
  while (!ring_.is_empty()) (void)work();  // no daemon is left to answer
  if (ring_.is_incomplete()) return;
  for (auto& [name, log] : logs_) (void)write(log, log_chunk(LogChunk::end, {}));
}

// --- reading -------------------------------------------------------------------------------------

namespace {

// Small enough that a working disk returns it within the timeout.
constexpr std::size_t read_bytes_max = 4 * 1024 * 1024;

// What read_states() says, each with the number and generation of a job and with bytes.
enum class What : std::uint64_t {
  still_reading,
  last_number,
  wrong,
  record,
  log,
  alive,
  failed,
  end
};

class StateReader {
 public:
  StateReader(int directory, const HelperProcesses::Say& say) : directory_(directory), say_(say) {}

  void say(What what, const StateFiles::File& file = {}) const {
    say_(packed({std::to_string(static_cast<std::uint64_t>(what)), std::to_string(file.number),
                 std::to_string(file.generation), file.bytes}));
  }
  void read_all(DIR* entries);

 private:
  void read(What what, const std::string& name, StateFiles::File file, off_t bytes_max) const;
  Result<std::string> read_whole(const std::string& name, off_t bytes_max) const;
  void read_logs(std::vector<LogName> names) const;
  void read_alive_file() const;

  const int directory_;
  const HelperProcesses::Say& say_;
  std::set<std::uint64_t> known_ = {};  // jobs with a record
};

void StateReader::read_all(DIR* entries) {
  read_alive_file();
  std::vector<LogName> logs;
  std::uint64_t last = 0;  // highest number of any file that stays
  while (const dirent* const entry = ::readdir(entries)) {
    const std::string name = entry->d_name;
    if (const auto log = log_of_name(name)) {
      logs.push_back(*log);
      last = std::max(last, log->number);
      continue;
    }
    if (number_of(name, unfinished)) ::unlinkat(directory_, name.c_str(), 0);
    const auto number = number_of(name, ready);
    last = std::max(last, number ? *number : number_of(name, "damaged").value_or(0));
    if (!number) continue;
    known_.insert(*number);
    read(What::record, name, {.number = *number}, file_bytes_max);
  }
  say(What::last_number, {.number = last});
  read_logs(std::move(logs));
  say(What::end);
}

void StateReader::read(What what, const std::string& name, StateFiles::File file,
                       off_t bytes_max) const {
  auto bytes = read_whole(name, bytes_max);
  if (!bytes) return say(What::wrong, {.bytes = name + " " + bytes.error().reason});
  file.bytes = *std::move(bytes);
  say(what, file);
}

Result<std::string> StateReader::read_whole(const std::string& name, off_t bytes_max) const {
  const FileDescriptor file(
      ::openat(directory_, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) return failure("cannot be read: " + errno_text(errno));
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) return failure(errno_text(errno));
  if (!S_ISREG(facts.st_mode)) return failure("is not a regular file");
  if (facts.st_size > bytes_max) return failure("is too large");
  std::string bytes(static_cast<std::size_t>(facts.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto got =
        ::read(file.get(), bytes.data() + done, std::min(bytes.size() - done, read_bytes_max));
    say(What::still_reading);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure(errno_text(errno));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

// Reads the newest log of each job and the one before it, in case the newest is incomplete. Removes
// older logs and logs of unknown jobs.
void StateReader::read_logs(std::vector<LogName> names) const {
  std::ranges::sort(names, [](const LogName& left, const LogName& right) {
    return std::pair(left.number, right.generation) < std::pair(right.number, left.generation);
  });
  int of_job = 0;
  for (std::size_t at = 0; at < names.size(); ++at) {
    const auto [number, generation] = names[at];
    const std::string name = log_name(number, generation);
    of_job = at > 0 && names[at - 1].number == number ? of_job + 1 : 1;
    if (of_job <= 2 && known_.contains(number)) {
      read(What::log, name, {.number = number, .bytes = {}, .generation = generation},
           log_bytes_max);
    } else {
      (void)::unlinkat(directory_, name.c_str(), 0);  // else at next start
      say(What::still_reading);
    }
  }
}

void StateReader::read_alive_file() const {
  struct stat facts {};
  const bool is_there = ::fstatat(directory_, alive_name, &facts, AT_SYMLINK_NOFOLLOW) == 0;
  if (!is_there || !S_ISREG(facts.st_mode) || facts.st_mtim.tv_sec <= 0) return;
  const auto microseconds = facts.st_mtim.tv_sec * 1'000'000 + facts.st_mtim.tv_nsec / 1000;
  say(What::alive, {.number = static_cast<std::uint64_t>(microseconds)});
}

}  // namespace

void read_states(const std::string& path, const HelperProcesses::Say& say) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(path.c_str()), &::closedir);
  const int error_number = errno;
  StateReader reader(entries ? ::dirfd(entries.get()) : -1, say);
  if (entries) return reader.read_all(entries.get());
  reader.say(What::failed, {.bytes = "cannot be read: " + errno_text(error_number)});
}

Result<StateFiles> state_files_of(std::string_view said) {
  StateFiles found;
  auto texts = unpacked(said);
  for (std::size_t at = 0; at + 4 <= texts.size(); at += 4) {
    const auto number_at = [&](std::size_t index) {
      return leading_number<std::uint64_t>(texts[at + index]).value_or(0);
    };
    StateFiles::File file{number_at(1), std::move(texts[at + 3]), number_at(2)};
    switch (static_cast<What>(number_at(0))) {
      case What::still_reading:
        break;
      case What::last_number:
        found.last_number = file.number;
        break;
      case What::wrong:
        found.wrong.push_back(std::move(file.bytes));
        break;
      case What::record:
        found.files.push_back(std::move(file));
        break;
      case What::log:
        found.logs.push_back(std::move(file));
        break;
      case What::alive:
        found.alive = WallTime{std::chrono::microseconds{file.number}};
        break;
      case What::failed:
        return failure(file.bytes);
      case What::end:
        std::ranges::sort(found.files, {}, &StateFiles::File::number);
        return found;
    }
  }
  return failure("cannot be read: the reading process was killed");
}

}  // namespace cpprun
