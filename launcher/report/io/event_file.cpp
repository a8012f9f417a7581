// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/io/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "proto/bounds.h"

namespace cpprun::io {

namespace {

bool is_file(int descriptor) {
  struct stat facts {};
  return ::fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode);
}

// What may be cured by somebody who reads, or deletes.
bool passes(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == ENOSPC ||
         error_number == EDQUOT;
}

}  // namespace

Result<EventFile> EventFile::open(const std::string& path) {
  EventFile events;
  events.path_ = path;
  // No waiting for a reader, and none for room later.
  events.file_.reset(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644));
  if (events.file_) return events;
  return failure(fmt::format("--events: cannot write \"{}\": {}", path, std::strerror(errno)));
}

void EventFile::serve(asio::io_context& context) {
  if (!file_ || is_file(file_.get())) return;
  // One of our own: what is waited for by Asio is closed by it.
  const int watched = ::fcntl(file_.get(), F_DUPFD_CLOEXEC, 3);
  if (watched < 0) return;
  room_ = std::make_shared<asio::posix::stream_descriptor>(context);
  asio::error_code refused;  // by what cannot be waited for: then the next line tries again
  room_->assign(watched, refused);
  if (refused) {
    ::close(watched);
    room_.reset();
  }
}

Result<void> EventFile::append(const std::string& line) {
  if (!file_ || line.empty()) return {};
  if (waiting_bytes_ + line.size() > bounds::events_waiting_bytes_max) {
    ++lost_;
    return listening_ ? Result<void>{} : write_waiting();
  }
  waiting_.push_back(line);
  waiting_bytes_ += line.size();
  // It comes after those that wait already, and somebody waits for their sake.
  return listening_ ? Result<void>{} : write_waiting();
}

Result<void> EventFile::write_waiting() {
  while (file_ && !waiting_.empty()) {
    const auto outcome = write_front();
    if (outcome == Outcome::written) continue;
    if (outcome == Outcome::over) {
      file_.reset();
      room_.reset();
      waiting_.clear();
      return failure(
          fmt::format("--events: cannot write \"{}\": {}; no further event is written, "
                      "the job goes on",
                      path_, std::strerror(error_number_)));
    }
    listen();
    // A pipe that is read slowly is an ordinary thing.
    const bool slow = error_number_ == EAGAIN || error_number_ == EWOULDBLOCK;
    if (slow || std::exchange(complained_, true)) return {};
    return failure(
        fmt::format("--events: cannot write \"{}\": {}; events wait until there is room, "
                    "at most {} KiB of them, and the job goes on",
                    path_, std::strerror(error_number_), bounds::events_waiting_bytes_max / 1024));
  }
  complained_ = false;
  return {};
}

// One write for a line, so that those of several nodes in one file stay whole.
EventFile::Outcome EventFile::write_front() {
  auto& line = waiting_.front();
  const auto put = ::write(file_.get(), line.data(), line.size());
  if (put < 0) {
    if (errno == EINTR) return Outcome::written;
    error_number_ = errno;
    return passes(errno) ? Outcome::later : Outcome::over;
  }
  const auto written = static_cast<std::size_t>(put);
  if (written < line.size() && is_file(file_.get())) {
    cut_back(written);
    error_number_ = ENOSPC;
    return Outcome::later;
  }
  waiting_bytes_ -= written;
  line.erase(0, written);
  if (line.empty()) waiting_.pop_front();
  return Outcome::written;
}

// Half a line is worse than none, unless somebody has written behind it already.
void EventFile::cut_back(std::size_t torn) const {
  struct stat facts {};
  const auto end = ::lseek(file_.get(), 0, SEEK_CUR);
  if (::fstat(file_.get(), &facts) != 0 || end < 0 || facts.st_size != end) return;
  // Where that fails the line stays torn; it is written as a whole when there is room.
  static_cast<void>(::ftruncate(file_.get(), end - static_cast<off_t>(torn)));
}

void EventFile::listen() {
  if (!room_ || listening_ || (error_number_ != EAGAIN && error_number_ != EWOULDBLOCK)) return;
  listening_ = true;
  room_->async_wait(asio::posix::stream_descriptor::wait_write,
                    [this, held = std::weak_ptr(room_)](const asio::error_code& error) {
                      // Gone with its owner, or because nobody reads any more.
                      if (error || held.expired()) return;
                      listening_ = false;
                      static_cast<void>(write_waiting());
                    });
}

void EventFile::finish() {
  if (!file_ || waiting_.empty()) return;
  static_cast<void>(::fcntl(file_.get(), F_SETPIPE_SZ, static_cast<int>(bounds::pipe_bytes_max)));
  static_cast<void>(write_waiting());
}

std::size_t EventFile::take_lost() {
  return waiting_.empty() ? std::exchange(lost_, 0) : 0;
}

}  // namespace cpprun::io
