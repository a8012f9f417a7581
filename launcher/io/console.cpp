#include "launcher/io/console.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "proto/bounds.h"

namespace cpprun::io {

Console::Console(asio::io_context& context, int descriptor, Callbacks callbacks)
    : descriptor_(descriptor), watch_(context), callbacks_(std::move(callbacks)) {
  choose_way();
  if (way_ == Way::direct) return;
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLOUT | EPOLLONESHOT;
  const int watched = own_ >= 0 ? own_ : descriptor_;
  if (epoll >= 0 && ::epoll_ctl(epoll, EPOLL_CTL_ADD, watched, &event) == 0) {
    watch_.assign(epoll);
  } else {
    // What cannot be watched does not block either: /dev/null and its like.
    if (epoll >= 0) ::close(epoll);
    way_ = Way::direct;
  }
}

Console::~Console() {
  if (own_ >= 0) ::close(own_);
}

void Console::choose_way() {
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

void Console::write(int speaker, std::string_view prefix, const Piece& piece) {
  if (lost_) return;
  merger_.add(speaker, prefix, piece, queue_);
  if (!waiting_) push_out();
  was_full_ = was_full_ || full();
}

bool Console::full() const {
  return queue_.size() - written_ > bounds::console_queue_bytes_max;
}

// As write(2), but comes back at once: EAGAIN where the reader takes nothing now.
long Console::put(const char* bytes, std::size_t count) const {
  switch (way_) {
    case Way::direct:
      return ::write(descriptor_, bytes, count);
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

void Console::push_out() {
  while (written_ < queue_.size()) {
    const auto put_bytes = put(queue_.data() + written_, queue_.size() - written_);
    if (put_bytes > 0) {
      written_ += static_cast<std::size_t>(put_bytes);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      return give_up(errno);
    }
  }
  const bool all = empty();
  // The front is let go of only when it is worth moving the rest.
  if (all || written_ > bounds::console_queue_bytes_max) {
    queue_.erase(0, written_);
    written_ = 0;
  }
  if (!all) wait();
  if (was_full_ && !full()) {
    was_full_ = false;
    callbacks_.room();
  }
  if (all) callbacks_.empty();
}

void Console::wait() {
  // A file that is full now will not say when it no longer is: what waits goes with the next words.
  if (waiting_ || way_ == Way::direct) return;
  epoll_event event{};
  event.events = EPOLLOUT | EPOLLONESHOT;
  ::epoll_ctl(watch_.native_handle(), EPOLL_CTL_MOD, own_ >= 0 ? own_ : descriptor_, &event);
  waiting_ = true;
  watch_.async_wait(asio::posix::stream_descriptor::wait_read,
                    [this](const asio::error_code& error) {
                      if (error) return;
                      waiting_ = false;
                      push_out();
                    });
}

void Console::give_up(int error_number) {
  lost_ = true;
  queue_.clear();
  written_ = 0;
  was_full_ = false;
  callbacks_.lost(error_number);
  callbacks_.room();
  callbacks_.empty();
}

}  // namespace cpprun::io
