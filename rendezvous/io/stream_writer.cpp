// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/stream_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <string>
#include <string_view>
#include <utility>

#include "proto/text.h"
#include "rendezvous/bounds.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

NonBlockingWriter::NonBlockingWriter(asio::io_context& context, int descriptor, Callbacks callbacks,
                                     bool of_lines)
    : descriptor_(descriptor),
      of_lines_(of_lines),
      watch_(context),
      callbacks_(std::move(callbacks)) {
  choose_way();
  if (way_ == Way::direct) return;
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLOUT | EPOLLONESHOT;
  if (epoll >= 0 && ::epoll_ctl(epoll, EPOLL_CTL_ADD, watched(), &event) == 0) {
    watch_.assign(epoll);
  } else {
    // What cannot be watched does not block either: /dev/null and its like.
    if (epoll >= 0) ::close(epoll);
    way_ = Way::direct;
  }
}

NonBlockingWriter::~NonBlockingWriter() {
  close();
}

void NonBlockingWriter::close() {
  if (own_ >= 0) ::close(std::exchange(own_, -1));
  is_lost_ = true;
}

void NonBlockingWriter::choose_way() {
  struct stat kind {};
  if (::fstat(descriptor_, &kind) != 0 || S_ISREG(kind.st_mode)) return;
  if (S_ISSOCK(kind.st_mode)) {
    way_ = Way::socket;
    return;
  }
  const auto path = "/proc/self/fd/" + std::to_string(descriptor_);
  own_ = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  way_ = own_ >= 0 ? Way::own : Way::cautiously;
}

void NonBlockingWriter::write(std::string_view bytes) {
  if (bytes.empty() && empty()) return;
  if (!is_lost_) {
    queue_ += bytes;
    if (!waiting_) push_out();
    was_full_ = was_full_ || full();
    return;
  }
  // Nothing is queued while words are lost. Perhaps they no longer are.
  if (is_torn_) queue_ += '\n';
  queue_ += bytes;
  const int error_number = write_queued();
  if (error_number != 0 && error_number != EAGAIN) {
    lost_bytes_ += std::min(waiting(), bytes.size());
    queue_.clear();
    written_ = 0;
    return;
  }
  is_lost_ = false;
  const std::uint64_t lost = std::exchange(lost_bytes_, 0);
  push_out();
  if (callbacks_.back) callbacks_.back(lost);
}

bool NonBlockingWriter::full() const {
  return waiting() > bounds::console_queue_bytes_max;
}

// As write(2), but comes back at once: EAGAIN where the reader takes nothing now.
long NonBlockingWriter::put(const char* bytes, std::size_t count) const {
  switch (way_) {
    case Way::direct:  // `own_` if it was opened and cannot be watched: it never blocks
      return ::write(own_ >= 0 ? own_ : descriptor_, bytes, count);
    case Way::own:
      return ::write(own_, bytes, count);
    case Way::socket:
      return ::send(descriptor_, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    case Way::cautiously:
      break;
  }
  pollfd asked{.fd = descriptor_, .events = POLLOUT, .revents = 0};
  if (::poll(&asked, 1, 0) <= 0) {
    errno = EAGAIN;
    return -1;
  }
  // A pipe that is writable takes this much without blocking.
  return ::write(descriptor_, bytes, std::min<std::size_t>(count, PIPE_BUF));
}

int NonBlockingWriter::write_queued() {
  while (written_ < queue_.size()) {
    const auto line_end = of_lines_ ? queue_.find('\n', written_) : std::string::npos;
    const auto end = line_end == std::string::npos ? queue_.size() : line_end + 1;
    const auto count = put(queue_.data() + written_, end - written_);
    if (count > 0) {
      written_ += static_cast<std::size_t>(count);
      is_torn_ = queue_[written_ - 1] != '\n';
    } else if (count == 0 || errno == EAGAIN || errno == EWOULDBLOCK) {
      return EAGAIN;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

void NonBlockingWriter::push_out() {
  const int error_number = write_queued();
  const bool was_full = is_disk_full_;
  is_disk_full_ = of_lines_ && (error_number == ENOSPC || error_number == EDQUOT);
  if (is_disk_full_) {
    if (!was_full && callbacks_.lost) callbacks_.lost(error_number);
    return;
  }
  if (error_number != 0 && error_number != EAGAIN) return lose(error_number);
  const bool all = empty();
  // The front is let go of only when it is worth moving the rest.
  if (all || written_ > bounds::console_queue_bytes_max) {
    queue_.erase(0, written_);
    written_ = 0;
  }
  if (!all) wait();
  if (was_full_ && !full()) {
    was_full_ = false;
    call(callbacks_.room);
  }
  if (all) call(callbacks_.empty);
}

void NonBlockingWriter::wait() {
  // A full stream that cannot be watched does not report when it has room: the queue goes out with
  // the next write.
  if (waiting_ || way_ == Way::direct) return;
  epoll_event event{};
  event.events = EPOLLOUT | EPOLLONESHOT;
  ::epoll_ctl(watch_.native_handle(), EPOLL_CTL_MOD, watched(), &event);
  waiting_ = true;
  watch_.async_wait(asio::posix::stream_descriptor::wait_read,
                    [this](const asio::error_code& error) {
                      if (error) return;
                      waiting_ = false;
                      push_out();
                    });
}

void NonBlockingWriter::lose(int error_number) {
  is_lost_ = true;
  lost_bytes_ += waiting();
  queue_.clear();
  written_ = 0;
  was_full_ = false;
  if (callbacks_.lost) callbacks_.lost(error_number);
  call(callbacks_.room);
  call(callbacks_.empty);
}

void NonBlockingWriter::flush(Duration timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!empty() && !is_lost_ && way_ != Way::direct) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd asked{.fd = watched(), .events = POLLOUT, .revents = 0};
    if (left.count() <= 0 || ::poll(&asked, 1, static_cast<int>(left.count())) == 0) return;
    if (const int error = write_queued(); error != 0 && error != EAGAIN) return lose(error);
  }
}

}  // namespace cpprun
