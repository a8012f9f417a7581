#include "launcher/io/chronicle.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "launcher/io/host.h"
#include "launcher/io/log_dir.h"
#include "launcher/io/wall_clock.h"

namespace cpprun::io {

namespace {

// A pipe or a device is written to as it is; replacing it by a file would be a surprise.
// So would be one in the place of /dev/stdout, where that is a file.
bool is_special(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return false;
  for (const int own : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat ours {};
    const bool known = ::fstat(own, &ours) == 0;
    if (known && ours.st_dev == facts.st_dev && ours.st_ino == facts.st_ino) return true;
  }
  return !S_ISREG(facts.st_mode);
}

tl::unexpected<Error> cannot_write(const std::string& flag, const std::string& path, int number) {
  return failure(fmt::format("{}: cannot write \"{}\": {}", flag, path, std::strerror(number)));
}

// Leaves nothing behind: the report is written under another name and renamed.
Result<void> try_report(const std::string& path) {
  const bool special = is_special(path);
  const auto tried = special ? path : path + "." + random_token(4);
  struct stat facts {};
  if (special && ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode)) {
    return cannot_write("--report", path, EISDIR);
  }
  // A pipe that nobody reads yet must not hold up the start.
  const FileDescriptor file{
      ::open(tried.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644)};
  if (!file && errno != ENXIO) return cannot_write("--report", path, errno);
  if (!special) ::unlink(tried.c_str());
  return {};
}

}  // namespace

Result<Chronicle> Chronicle::open(const std::string& report_path, const std::string& events_path) {
  Chronicle chronicle;
  chronicle.report_path_ = report_path;
  chronicle.events_path_ = events_path;
  if (!report_path.empty()) {
    if (auto tried = try_report(report_path); !tried) return tl::unexpected(tried.error());
  }
  if (!events_path.empty()) {
    chronicle.events_.reset(
        ::open(events_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644));
    if (!chronicle.events_) return cannot_write("--events", events_path, errno);
  }
  return chronicle;
}

std::string Chronicle::line(const journal::Event& event) {
  if (!journal_) return {};
  return journal_->line(wall_now(), event);
}

Result<void> Chronicle::append(const std::string& line) {
  if (!events_) return {};
  const auto written = ::write(events_.get(), line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) return {};
  const int error_number = written < 0 ? errno : ENOSPC;
  events_.reset();
  return failure(
      fmt::format("--events: cannot write \"{}\": {}; no further event is written, the "
                  "job goes on",
                  events_path_, std::strerror(error_number)));
}

Result<void> Chronicle::leave_report(const std::string& text) const {
  if (report_path_.empty()) return {};
  if (!is_special(report_path_)) return write_whole_file(report_path_, text);
  constexpr int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK;
  const FileDescriptor file{::open(report_path_.c_str(), flags)};
  const auto written = file ? ::write(file.get(), text.data(), text.size()) : -1;
  if (written != static_cast<ssize_t>(text.size())) {
    return cannot_write("--report", report_path_, written < 0 ? errno : ENOSPC);
  }
  return {};
}

}  // namespace cpprun::io
