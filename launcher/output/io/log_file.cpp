// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/io/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace cpprun::io {

bool LogFile::open(const std::string& path, bool emptied, std::uint64_t bytes_max) {
  if (path.empty()) return true;
  path_ = path;
  bytes_max_ = bytes_max;
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (emptied ? O_TRUNC : 0);
  file_.reset(::open(path.c_str(), flags, 0644));
  struct stat facts {};
  bytes_ =
      file_ && ::fstat(file_.get(), &facts) == 0 ? static_cast<std::uint64_t>(facts.st_size) : 0;
  return bool(file_);
}

void LogFile::write(std::string_view bytes, const Complain& complain) {
  while (file_ && bytes_max_ > 0 && bytes_ + bytes.size() > bytes_max_) {
    // Whole lines as far as there is room for any; a line that has none anywhere is cut.
    const auto room = bytes_max_ > bytes_ ? static_cast<std::size_t>(bytes_max_ - bytes_) : 0;
    const auto newline = bytes.substr(0, room).rfind('\n');
    const auto fits = newline != std::string_view::npos ? newline + 1 : bytes_ == 0 ? room : 0;
    if (!write_all(bytes.substr(0, fits), complain) || !rotate(complain)) return;
    bytes.remove_prefix(fits);
  }
  write_all(bytes, complain);
}

bool LogFile::write_all(std::string_view bytes, const Complain& complain) {
  while (file_ && !bytes.empty()) {
    const auto put = ::write(file_.get(), bytes.data(), bytes.size());
    if (put > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(put));
      bytes_ += static_cast<std::uint64_t>(put);
    } else if (errno != EINTR) {
      return refused(errno, complain);
    }
  }
  return true;
}

bool LogFile::rotate(const Complain& complain) {
  if (::rename(path_.c_str(), (path_ + ".1").c_str()) != 0) return refused(errno, complain);
  file_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_TRUNC, 0644));
  bytes_ = 0;
  return file_ ? true : refused(errno, complain);
}

bool LogFile::refused(int error_number, const Complain& complain) {
  if (std::exchange(complained_, true)) return false;
  complain(error_number);
  return false;
}

}  // namespace cpprun::io
