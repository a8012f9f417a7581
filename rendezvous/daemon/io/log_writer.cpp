// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/log_writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "rendezvous/daemon/io/state_writer.h"
#include "rendezvous/daemon/log_file.h"
#include "rendezvous/io/write_all.h"

namespace cpprun {

namespace {

constexpr int batch_max = 256;

}  // namespace

std::string log_name(std::uint64_t number, std::uint64_t generation) {
  return fmt::format("job-{}.{}.log", number, generation);
}

LogWriter::Worked LogWriter::work() {
  Worked worked;
  worked.has_more = true;
  for (int left = batch_max; left > 0; --left) {
    const auto entry = ring_.next();
    if (!entry) {
      worked.has_more = false;
      break;
    }
    const int wrong = carry_out(*entry);
    if (wrong != 0) {
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
  (void)::fsync(folder_);  // the names; a file whose name is lost is a log that is lost, no more
  return worked;
}

// Nothing of that job leads anywhere any more, and had better not be found.
void LogWriter::give_up(std::uint64_t number) {
  remove(number, std::numeric_limits<std::uint64_t>::max());
}

int LogWriter::carry_out(const LogRing::Entry& entry) {
  const auto order = static_cast<LogOrder>(entry.kind);
  if (order == LogOrder::begin) return begin(entry);
  if (order == LogOrder::again) return go_on(entry);
  if (order == LogOrder::gone) {
    remove(entry.number, std::numeric_limits<std::uint64_t>::max());
    return 0;
  }
  const auto found = logs_.find({entry.number, entry.generation});
  // One that could not be written goes on when it begins anew.
  if (found == logs_.end()) return 0;
  const LogChunk kind = order == LogOrder::whole ? LogChunk::whole : LogChunk::bytes;
  const int wrong = write(found->second, log_chunk(kind, entry.bytes));
  if (wrong == 0 && order == LogOrder::whole) remove(entry.number, entry.generation);
  return wrong;
}

int LogWriter::begin(const LogRing::Entry& entry) {
  Log log;
  const std::string name = log_name(entry.number, entry.generation);
  log.file.reset(::openat(folder_, name.c_str(),
                          O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!log.file) return errno;
  const int wrong = write(log, entry.bytes);
  if (wrong != 0) return wrong;
  logs_[{entry.number, entry.generation}] = std::move(log);
  return 0;
}

// From now on it has no end, until it is said again.
int LogWriter::go_on(const LogRing::Entry& entry) {
  Log log;
  log.file.reset(::openat(folder_, log_name(entry.number, entry.generation).c_str(),
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

// Of that job all whose generation is less than that.
void LogWriter::remove(std::uint64_t number, std::uint64_t below) {
  logs_.erase(logs_.lower_bound({number, 0}), logs_.lower_bound({number, below}));
  const FileDescriptor folder(::openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const int copy = folder ? ::dup(folder.get()) : -1;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(copy < 0 ? nullptr : ::fdopendir(copy),
                                                    [](DIR* open) { return ::closedir(open); });
  if (entries == nullptr) return;  // they are removed with the next
  while (const dirent* const entry = ::readdir(entries.get())) {
    const auto log = log_of_name(entry->d_name);
    if (log && log->number == number && log->generation < below) {
      (void)::unlinkat(folder_, entry->d_name, 0);  // else it has no end
    }
  }
}

void LogWriter::end() {
  while (!ring_.is_empty()) (void)work();  // nobody is there to be told
  if (ring_.is_incomplete()) return;
  for (auto& [name, log] : logs_) (void)write(log, log_chunk(LogChunk::end, {}));
}

}  // namespace cpprun
