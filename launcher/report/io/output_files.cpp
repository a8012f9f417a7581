// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/io/output_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "launcher/io/wall_clock.h"
#include "launcher/output/io/log_dir.h"
#include "launcher/plan/io/host.h"

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
  if (!is_special(path)) {
    const auto tried = path + "." + random_token(4);
    const FileDescriptor file{::open(tried.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)};
    if (!file) return cannot_write("--report", path, errno);
    ::unlink(tried.c_str());
    return {};
  }
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode)) {
    return cannot_write("--report", path, EISDIR);
  }
  // A pipe that nobody reads yet must not hold up the start.
  const FileDescriptor file{::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK)};
  if (!file && errno != ENXIO) return cannot_write("--report", path, errno);
  return {};
}

}  // namespace

Result<OutputFiles> OutputFiles::open(const std::string& report_path,
                                      const std::string& events_path) {
  OutputFiles output_files;
  output_files.report_path_ = report_path;
  if (!report_path.empty()) {
    if (auto tried = try_report(report_path); !tried) return tl::unexpected(tried.error());
  }
  if (!events_path.empty()) {
    auto opened = EventFile::open(events_path);
    if (!opened) return tl::unexpected(opened.error());
    output_files.events_ = std::move(*opened);
  }
  return output_files;
}

std::string OutputFiles::line(const event_log::Event& event) {
  if (!event_log_) return {};
  return event_log_->line(wall_now(), event);
}

Result<void> OutputFiles::append(const std::string& line) {
  if (const auto lost = events_.take_lost(); lost > 0) {
    static_cast<void>(events_.append(this->line(event_log::EventsLost{lost})));
  }
  return events_.append(line);
}

bool OutputFiles::report_is_ours() const {
  if (announced_.empty()) return true;
  const auto there = read_small_file(report_path_);
  return !there || *there == announced_;
}

Result<void> OutputFiles::announce_report(const std::string& text) {
  if (report_path_.empty() || is_special(report_path_) || !report_is_ours()) return {};
  const auto written = write_whole_file(report_path_, text);
  if (written) announced_ = text;
  return written;
}

Result<std::string> OutputFiles::leave_report(const std::string& text,
                                              const std::string& suffix) const {
  if (report_path_.empty()) return report_path_;
  if (!is_special(report_path_)) {
    const auto path = report_is_ours() ? report_path_ : report_path_ + suffix;
    if (auto left = write_whole_file(path, text); !left) return tl::unexpected(left.error());
    return path;
  }
  constexpr int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK;
  const FileDescriptor file{::open(report_path_.c_str(), flags)};
  const auto written = file ? ::write(file.get(), text.data(), text.size()) : -1;
  if (written != static_cast<ssize_t>(text.size())) {
    return cannot_write("--report", report_path_, written < 0 ? errno : ENOSPC);
  }
  return report_path_;
}

}  // namespace cpprun::io
