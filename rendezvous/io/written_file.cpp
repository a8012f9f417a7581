// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/written_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "proto/text.h"

namespace cpprun {

bool waiting_helps(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR ||
         error_number == ENOSPC || error_number == EDQUOT;
}

int WrittenFile::open(Plan plan) {
  plan_ = std::move(plan);
  file_.reset(plan_.descriptor);
  return file_ ? 0 : open_file(plan_.is_emptied);
}

int WrittenFile::open_file(bool is_emptied) {
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (is_emptied ? O_TRUNC : 0);
  file_.reset(::open(plan_.path.c_str(), flags, 0644));
  if (!file_) return errno;
  struct stat facts {};
  bytes_ = ::fstat(file_.get(), &facts) == 0 ? static_cast<std::uint64_t>(facts.st_size) : 0;
  return 0;
}

bool WrittenFile::write(std::string_view bytes, const Callbacks& callbacks) {
  if (plan_.on_error == OnError::keep_lines) return write_line(bytes, callbacks);
  if (lost_ > 0 && !close_gap()) {
    lost_ += bytes.size();
    return true;
  }
  const auto bytes_max = plan_.bytes_max;
  while (bytes_max > 0 && bytes_ + bytes.size() > bytes_max) {
    // Write whole lines as far as they fit. A line longer than the limit is cut.
    const auto room = bytes_max > bytes_ ? static_cast<std::size_t>(bytes_max - bytes_) : 0;
    const auto newline = bytes.substr(0, room).rfind('\n');
    const auto fits = newline != std::string_view::npos ? newline + 1 : bytes_ == 0 ? room : 0;
    if (!put(bytes.substr(0, fits), callbacks) || !rotate(callbacks)) return true;
    bytes.remove_prefix(fits);
  }
  (void)put(bytes, callbacks);
  return true;
}

bool WrittenFile::put(std::string_view bytes, const Callbacks& callbacks) {
  if (!file_) return false;
  const auto done = write_all(file_.get(), bytes);
  bytes_ += done;
  if (done < bytes.size()) {
    const int error_number = errno;
    if (plan_.on_error == OnError::mark_gap) lost_ = bytes.size() - done;
    return failed(error_number, callbacks);
  }
  if (plan_.on_error == OnError::mark_gap) error_number_ = 0;
  return true;
}

bool WrittenFile::rotate(const Callbacks& callbacks) {
  const bool is_renamed = ::rename(plan_.path.c_str(), (plan_.path + ".1").c_str()) == 0;
  const int wrong = is_renamed ? open_file(/*is_emptied=*/true) : errno;
  return wrong == 0 || failed(wrong, callbacks);
}

// Writes a note in place of the lost bytes, as soon as there is room for it.
bool WrittenFile::close_gap() {
  const auto note = "\ncpprun: " + std::to_string(lost_) +
                    " bytes are missing here: " + errno_text(error_number_) + "\n";
  const auto begin = ::lseek(file_.get(), 0, SEEK_CUR);
  const auto put = write_all(file_.get(), note);
  // Remove half of a note, unless other output follows it.
  if (put > 0 && put < note.size() && begin >= 0 &&
      ::lseek(file_.get(), 0, SEEK_END) == begin + static_cast<off_t>(put)) {
    (void)!::ftruncate(file_.get(), begin);
    (void)::lseek(file_.get(), begin, SEEK_SET);
  }
  if (put == note.size()) lost_ = 0;
  return lost_ == 0;
}

bool WrittenFile::write_line(std::string_view line, const Callbacks& callbacks) {
  while (const int error_number = try_line(line)) {
    (void)failed(error_number, callbacks);
    if (!waiting_helps(error_number) || !callbacks.pause()) return false;
  }
  error_number_ = 0;
  return true;
}

// Writes the line with one call, so that lines of several nodes in one file stay whole.
int WrittenFile::try_line(std::string_view line) const {
  const auto put = ::write(file_.get(), line.data(), line.size());
  if (put == static_cast<ssize_t>(line.size())) return 0;
  if (put < 0) return errno;
  // Remove a partly written line, unless another process has already appended to the file. If this
  // fails, the partial line remains, and the whole line is written when there is room.
  struct stat facts {};
  const auto end = ::lseek(file_.get(), 0, SEEK_CUR);
  if (::fstat(file_.get(), &facts) == 0 && end >= 0 && facts.st_size == end) {
    (void)!::ftruncate(file_.get(), end - put);
  }
  return ENOSPC;
}

bool WrittenFile::failed(int error_number, const Callbacks& callbacks) {
  const bool is_reported = std::exchange(error_number_, error_number) != 0;
  if (!is_reported) callbacks.trouble(error_number);
  return false;
}

}  // namespace cpprun
