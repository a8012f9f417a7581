// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/state_writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "proto/text.h"
#include "rendezvous/daemon/state_file.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

namespace {

constexpr const char* ready = "state";
constexpr const char* unfinished = "new";
constexpr const char* alive_name = "alive";
constexpr off_t file_bytes_max = 64 * 1024 * 1024;
// An image is as large as its store, and up to twice as much follows it (LogDirectory).
constexpr off_t log_bytes_max = off_t{8} * 1024 * 1024 * 1024;
constexpr std::size_t batch_max = 256;

// Small enough that a working disk returns it within the timeout.
constexpr std::size_t read_bytes_max = 4 * 1024 * 1024;

// Reads a file from its beginning.
Result<std::string> read_whole(
    int descriptor, off_t bytes_max = file_bytes_max,
    const std::function<void()>& goes_on = [] {}) {
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) return failure(errno_text(errno));
  if (!S_ISREG(facts.st_mode)) return failure("is not a regular file");
  if (facts.st_size > bytes_max) return failure("is too large");
  std::string bytes(static_cast<std::size_t>(facts.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto got =
        ::pread(descriptor, bytes.data() + done, std::min(bytes.size() - done, read_bytes_max),
                static_cast<off_t>(done));
    goes_on();
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure(errno_text(errno));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

// Returns 0 or errno. After an error the previous file is still there.
int replace(int directory, std::uint64_t number, const std::string& bytes, bool syncs) {
  const std::string name = state_name(number, unfinished);
  const FileDescriptor file(::openat(directory, name.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return errno;
  int wrong = 0;
  if (write_all(file.get(), bytes) < bytes.size()) {
    wrong = errno;
  } else if (syncs && ::fsync(file.get()) != 0) {
    wrong = errno;
  } else if (::renameat(directory, name.c_str(), directory, state_name(number, ready).c_str()) !=
             0) {
    wrong = errno;
  }
  if (wrong != 0) ::unlinkat(directory, name.c_str(), 0);
  return wrong;
}

int remove(int directory, std::uint64_t number) {
  return ::unlinkat(directory, state_name(number, ready).c_str(), 0) == 0 || errno == ENOENT
             ? 0
             : errno;
}

struct Received {
  StateRequest request;
  FileDescriptor record;
};

// The descriptor attached to a message.
FileDescriptor passed_with(msghdr& message) {
  const cmsghdr* const control = CMSG_FIRSTHDR(&message);
  if (control == nullptr || control->cmsg_type != SCM_RIGHTS) return {};
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(control), sizeof descriptor);
  return FileDescriptor(descriptor);
}

// nullopt if the daemon is gone, or if the call would block (MSG_DONTWAIT).
std::optional<Received> receive(int requests, int flags = 0) {
  Received received;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  iovec part{&received.request, sizeof received.request};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  while (true) {
    const auto got = ::recvmsg(requests, &message, MSG_CMSG_CLOEXEC | flags);
    // ECONNRESET: the daemon exited with unread answers. Its earlier requests are still queued.
    if (got < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (got != sizeof received.request) return std::nullopt;
    received.record = passed_with(message);
    return received;
  }
}

int carry_out(int directory, const Received& received, bool syncs) {
  if (received.request.kind == StateRequest::gone)
    return remove(directory, received.request.number);
  // The descriptor was dropped because this process is out of descriptors.
  if (!received.record) return EMFILE;
  const auto bytes = read_whole(received.record.get());
  return bytes ? replace(directory, received.request.number, *bytes, syncs) : EIO;
}

// The number in "job-7.ENDING".
std::optional<std::uint64_t> number_of(std::string_view name, std::string_view ending) {
  if (!name.starts_with("job-")) return std::nullopt;
  name.remove_prefix(4);
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc{} || rest == name.data()) return std::nullopt;
  // Only the canonical form counts, not "job-007".
  return name == fmt::format("{}.{}", number, ending) ? std::optional(number) : std::nullopt;
}

}  // namespace

std::string state_name(std::uint64_t number, const char* ending) {
  return fmt::format("job-{}.{}", number, ending);
}

namespace {

// Its modification time tells when the daemon was last alive.
class AliveFile {
 public:
  explicit AliveFile(int directory) : directory_(directory) {}

  // Best effort: a failing disk is reported when records are written.
  void renew() {
    due_ = Clock::now() + interval;
    const FileDescriptor file(::openat(
        directory_, alive_name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const timespec times[2] = {now, now};
    if (file) (void)::futimens(file.get(), times);
  }
  void renew_if_due() {
    if (Clock::now() >= due_) renew();
  }
  // Milliseconds until the next renewal; -1: the file was never written.
  int pause_ms() const {
    if (due_ == never) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(due_ - Clock::now()).count();
    return static_cast<int>(std::max<std::int64_t>(left, 0));
  }

 private:
  using Clock = std::chrono::steady_clock;
  // The precision to which the length of an outage is known, at the cost of one inode write per
  // interval.
  static constexpr auto interval = std::chrono::seconds(2);

  const int directory_;
  static constexpr auto never = Clock::time_point::max();
  Clock::time_point due_ = never;
};

// Delay before ring entries are written, so that they are written in batches. They are safe in the
// ring.
constexpr int ring_pause_ms = 10;

// Blocks until there is room: the daemon counts the answers, so none may be dropped, and it never
// blocks itself. An error is ignored, since the daemon may be gone and the work continues.
void answer(int requests, const StateReply& answer) {
  while (::send(requests, &answer, sizeof answer, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

// Returns whether there may be more entries.
bool work_on_logs(int requests, LogWriter& logs) {
  const LogWriter::Worked worked = logs.work();
  for (const LogWriter::Failed& failed : worked.failed) {
    answer(requests, {StateReply::log_failed, failed.number, failed.error_number});
  }
  if (worked.through > 0) answer(requests, {StateReply::logs, worked.through, 0});
  return worked.has_more;
}

// Carries out `received` and the requests queued behind it. Requests come before the ring: those
// that do not fit into the socket are lost with the daemon, while entries in the ring are not.
void work_on_records(int directory, int requests, std::optional<Received> received, bool syncs) {
  std::vector<StateReply> answers;
  std::size_t left = batch_max;
  do {
    if (received->request.kind == StateRequest::look_at_ring) continue;
    const StateReply done{StateReply::record, received->request.ticket,
                          carry_out(directory, *received, syncs)};
    syncs ? answers.push_back(done) : answer(requests, done);
  } while (--left > 0 && (received = receive(requests, MSG_DONTWAIT)));
  if (answers.empty()) return;
  // Flushes the names of all files.
  const int wrong = syncs && ::fsync(directory) != 0 ? errno : 0;
  for (StateReply& each : answers) {
    if (each.error_number == 0) each.error_number = wrong;
    answer(requests, each);
  }
}

}  // namespace

void write_states(int directory, int requests, SharedRing& ring, bool syncs) {
  LogWriter logs(directory, syncs, ring);
  AliveFile alive_file(directory);
  bool has_more = false;
  while (true) {
    alive_file.renew_if_due();
    const bool has_log = !ring.is_empty();
    pollfd watched{.fd = requests, .events = POLLIN, .revents = 0};
    const int pause = alive_file.pause_ms();
    const int timeout = !has_log ? pause : syncs || has_more ? 0 : ring_pause_ms;
    const int ready = ::poll(&watched, 1, timeout);
    if (ready < 0 && errno == EINTR) continue;
    if (ready > 0) {
      auto received = receive(requests);
      if (!received) break;
      const bool is_wake = received->request.kind == StateRequest::look_at_ring;
      work_on_records(directory, requests, std::move(received), syncs);
      if (!is_wake) alive_file.renew();
      if (is_wake && !syncs) continue;
    }
    has_more = work_on_logs(requests, logs);
  }
  if (alive_file.pause_ms() >= 0) alive_file.renew();
  logs.end();
}

int hand_over(int requests, const StateRequest& request, const std::string* record) {
  FileDescriptor file;
  if (record != nullptr) {
    file.reset(::memfd_create("job-state", MFD_CLOEXEC));
    if (!file) return errno;
    if (write_all(file.get(), *record) < record->size()) return errno;
  }
  StateRequest copy = request;
  iovec part{&copy, sizeof copy};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (file) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int descriptor = file.get();
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  return ::sendmsg(requests, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? errno : 0;
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

namespace {

Result<std::string> read_file(int directory, const std::string& name, off_t bytes_max,
                              const std::function<void()>& goes_on) {
  const FileDescriptor file(
      ::openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return file ? read_whole(file.get(), bytes_max, goes_on)
              : failure("cannot be read: " + errno_text(errno));
}

// Reads the newest log of each job and the one before it, in case the newest is incomplete. Removes
// older logs and logs of unknown jobs.
void read_logs(int directory, std::vector<LogName> names, const std::set<std::uint64_t>& known,
               StateFiles& found, const std::function<void()>& goes_on) {
  std::ranges::sort(names, [](const LogName& left, const LogName& right) {
    return std::pair(left.number, right.generation) < std::pair(right.number, left.generation);
  });
  int of_job = 0;
  for (std::size_t at = 0; at < names.size(); ++at) {
    const auto [number, generation] = names[at];
    of_job = at > 0 && names[at - 1].number == number ? of_job + 1 : 1;
    if (of_job > 2 || !known.contains(number)) {
      (void)::unlinkat(directory, log_name(number, generation).c_str(), 0);  // else at next start
      goes_on();
      continue;
    }
    auto bytes = read_file(directory, log_name(number, generation), log_bytes_max, goes_on);
    if (!bytes) {
      found.wrong.push_back(
          fmt::format("{} {}", log_name(number, generation), bytes.error().reason));
      continue;
    }
    found.logs.push_back({number, *std::move(bytes), generation});
  }
}

std::optional<WallTime> time_of_alive(int directory) {
  struct stat facts {};
  const bool is_there = ::fstatat(directory, alive_name, &facts, AT_SYMLINK_NOFOLLOW) == 0;
  if (!is_there || !S_ISREG(facts.st_mode)) return std::nullopt;
  return WallTime{std::chrono::seconds{facts.st_mtim.tv_sec} +
                  std::chrono::microseconds{facts.st_mtim.tv_nsec / 1000}};
}

}  // namespace

Result<StateFiles> read_states(const std::string& path, const std::function<void()>& goes_on) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(path.c_str()), &::closedir);
  if (entries == nullptr) return failure("cannot be read: " + errno_text(errno));
  const int directory = ::dirfd(entries.get());
  StateFiles found;
  found.alive = time_of_alive(directory);
  std::vector<LogName> logs;
  std::set<std::uint64_t> known;
  while (const dirent* const entry = ::readdir(entries.get())) {
    if (const auto log = log_of_name(entry->d_name)) {
      logs.push_back(*log);
      found.last_number = std::max(found.last_number, log->number);
      continue;
    }
    if (number_of(entry->d_name, unfinished)) ::unlinkat(directory, entry->d_name, 0);
    const auto number = number_of(entry->d_name, ready);
    const auto any = number ? number : number_of(entry->d_name, "damaged");
    found.last_number = std::max(found.last_number, any.value_or(0));
    if (!number) continue;
    known.insert(*number);
    auto bytes = read_file(directory, entry->d_name, file_bytes_max, goes_on);
    if (!bytes) found.wrong.push_back(fmt::format("{} {}", entry->d_name, bytes.error().reason));
    if (!bytes) continue;
    found.files.push_back({*number, *std::move(bytes)});
  }
  read_logs(directory, std::move(logs), known, found, goes_on);
  std::ranges::sort(found.files, {}, &StateFiles::File::number);
  return found;
}

namespace {

constexpr int log_batch_max = 256;

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

}  // namespace

std::string log_name(std::uint64_t number, std::uint64_t generation) {
  return fmt::format("job-{}.{}.log", number, generation);
}

LogWriter::LogWriter(int directory, bool syncs, SharedRing& ring)
    : directory_(directory), syncs_(syncs), ring_(ring) {
  (void)visit_logs(directory_, [this](const LogName& log) { unswept_.insert(log.number); });
}

LogWriter::Worked LogWriter::work() {
  Worked worked;
  worked.has_more = true;
  for (int left = log_batch_max; left > 0; --left) {
    const auto entry = ring_.next();
    if (!entry) {
      worked.has_more = false;
      break;
    }
    const int wrong = carry_out(*entry);
    if (wrong != 0) {
      unswept_.insert(entry->number);
      worked.failed.push_back({entry->number, wrong});
      give_up(entry->number);
    }
    worked.through = entry->ticket;
    ring_.drop();
  }
  if (!syncs_ || worked.through == 0) return worked;
  std::set<std::uint64_t> wrong;
  for (auto& [name, log] : logs_) {
    const bool is_wrong = std::exchange(log.is_dirty, false) && ::fdatasync(log.file.get()) != 0;
    if (is_wrong && wrong.insert(name.first).second) worked.failed.push_back({name.first, errno});
  }
  for (const std::uint64_t number : wrong) give_up(number);
  (void)::fsync(directory_);  // flush the names; a lost name loses only that log
  return worked;
}

// Removes all logs of the job: none can be resumed, so none should be found.
void LogWriter::give_up(std::uint64_t number) {
  remove(number, std::numeric_limits<std::uint64_t>::max());
}

int LogWriter::carry_out(const SharedRing::Entry& entry) {
  const auto entry_kind = static_cast<LogEntryKind>(entry.kind);
  if (entry_kind == LogEntryKind::begin) return begin(entry);
  if (entry_kind == LogEntryKind::again) return go_on(entry);
  if (entry_kind == LogEntryKind::gone) {
    remove(entry.number, std::numeric_limits<std::uint64_t>::max());
    return 0;
  }
  const auto found = logs_.find({entry.number, entry.generation});
  // After a failure, entries are ignored until a new log begins.
  if (found == logs_.end()) return 0;
  const LogChunk kind = entry_kind == LogEntryKind::whole ? LogChunk::whole : LogChunk::bytes;
  const int wrong = write(found->second, log_chunk(kind, entry.bytes));
  if (wrong == 0 && entry_kind == LogEntryKind::whole) remove(entry.number, entry.generation);
  return wrong;
}

int LogWriter::begin(const SharedRing::Entry& entry) {
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
int LogWriter::go_on(const SharedRing::Entry& entry) {
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

int LogWriter::write(Log& log, const std::string& bytes) const {
  log.is_dirty = true;
  return write_all(log.file.get(), bytes) < bytes.size() ? errno : 0;
}

// Removes the job's logs with a generation below `below`. Logs written by this process are known.
// The directory, which may have many thousands of files, is read only if there may be others.
void LogWriter::remove(std::uint64_t number, std::uint64_t below) {
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

void LogWriter::end() {
  while (!ring_.is_empty()) (void)work();  // no daemon is left to answer
  if (ring_.is_incomplete()) return;
  for (auto& [name, log] : logs_) (void)write(log, log_chunk(LogChunk::end, {}));
}

namespace {

enum What : std::uint64_t { last_number = 1, wrong, record, log, alive, end };

// The numbers of one line: what, job, generation, size. take_line() removes the line from `text`.
using Line = std::array<std::uint64_t, 4>;

std::optional<Line> take_line(std::string_view& text) {
  Line line{};
  for (std::size_t at = 0; at < line.size(); ++at) {
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), line[at]);
    const auto count = static_cast<std::size_t>(rest - text.data());
    const char stop = at + 1 == line.size() ? '\n' : ' ';
    if (error != std::errc{} || count == text.size() || text[count] != stop) return std::nullopt;
    text.remove_prefix(count + 1);
  }
  return line;
}

// Takes `file` by value: files may fill most of the memory, so none should exist twice for long.
void put_file(std::string& text, What what, StateFiles::File file) {
  text += fmt::format("{} {} {} {}\n", static_cast<std::uint64_t>(what), file.number,
                      file.generation, file.bytes.size());
  text += file.bytes;
}

}  // namespace

std::string text_of(Result<StateFiles> read) {
  if (!read) return "!" + read.error().reason;
  std::string text = "=";
  put_file(text, last_number, {.number = read->last_number});
  if (read->alive && *read->alive > WallTime{}) {
    const auto since_1970 = read->alive->time_since_epoch().count();
    put_file(text, alive, {.number = static_cast<std::uint64_t>(since_1970)});
  }
  for (const std::string& each : read->wrong) put_file(text, wrong, {.bytes = each});
  for (auto& each : read->files) put_file(text, record, std::move(each));
  for (auto& each : read->logs) put_file(text, log, std::move(each));
  put_file(text, end, {});
  return text;
}

Result<StateFiles> state_files_of(std::string_view text) {
  while (text.starts_with(still_reading)) text.remove_prefix(still_reading.size());
  if (text.starts_with("!")) return failure(std::string(text.substr(1)));
  const auto cut_off = failure("cannot be read: the reading process was killed");
  if (!text.starts_with("=")) return cut_off;
  text.remove_prefix(1);
  StateFiles files;
  while (const auto line = take_line(text)) {
    const auto [what, number, generation, size] = *line;
    if (size > text.size()) return cut_off;
    std::string bytes(text.substr(0, size));
    text.remove_prefix(size);
    switch (static_cast<What>(what)) {
      case last_number:
        files.last_number = number;
        break;
      case wrong:
        files.wrong.push_back(std::move(bytes));
        break;
      case record:
        files.files.push_back({number, std::move(bytes)});
        break;
      case log:
        files.logs.push_back({number, std::move(bytes), generation});
        break;
      case alive:
        files.alive = WallTime{std::chrono::microseconds{number}};
        break;
      case end:
        return text.empty() ? Result<StateFiles>(std::move(files)) : cut_off;
    }
  }
  return cut_off;
}

}  // namespace cpprun
