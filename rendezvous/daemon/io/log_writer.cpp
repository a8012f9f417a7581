// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/log_writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "rendezvous/daemon/io/state_writer.h"
#include "rendezvous/daemon/log_file.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

namespace {

constexpr int log_batch_max = 256;

// Visits what is called like a log. False: the folder cannot be read.
bool visit_logs(int folder, const std::function<void(const LogName&)>& visit) {
  FileDescriptor anew(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(anew ? ::fdopendir(anew.get()) : nullptr,
                                                    [](DIR* open) { return ::closedir(open); });
  if (entries == nullptr) return false;
  (void)anew.release();  // it is closed with the entries
  while (const dirent* const entry = ::readdir(entries.get())) {
    if (const auto log = log_of_name(entry->d_name)) visit(*log);
  }
  return true;
}

}  // namespace

std::string log_name(std::uint64_t number, std::uint64_t generation) {
  return fmt::format("job-{}.{}.log", number, generation);
}

LogWriter::LogWriter(int folder, bool syncs, LogRing& ring)
    : folder_(folder), syncs_(syncs), ring_(ring) {
  (void)visit_logs(folder_, [this](const LogName& log) { unswept_.insert(log.number); });
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

// Of that job all whose generation is less than that: those it has written are known, and the
// folder of many thousands is read for others alone.
void LogWriter::remove(std::uint64_t number, std::uint64_t below) {
  const auto unlink = [this](const LogName& log) {
    (void)::unlinkat(folder_, log_name(log.number, log.generation).c_str(),
                     0);  // else it has no end
  };
  const auto first = logs_.lower_bound({number, 0});
  const auto last = logs_.lower_bound({number, below});
  for (auto each = first; each != last; ++each) unlink({each->first.first, each->first.second});
  logs_.erase(first, last);
  if (!unswept_.contains(number)) return;
  const bool is_swept = visit_logs(folder_, [&](const LogName& log) {
    if (log.number == number && log.generation < below) unlink(log);
  });
  if (is_swept) unswept_.erase(number);
}

void LogWriter::end() {
  while (!ring_.is_empty()) (void)work();  // nobody is there to be told
  if (ring_.is_incomplete()) return;
  for (auto& [name, log] : logs_) (void)write(log, log_chunk(LogChunk::end, {}));
}

}  // namespace cpprun
