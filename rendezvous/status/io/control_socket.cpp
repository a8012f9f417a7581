// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/io/control_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/status/bounds.h"
#include "rendezvous/status/io/door.h"

namespace cpprun {

namespace {

constexpr char opened_mark = '+';  // the path follows
constexpr char failed_mark = '-';  // the reason follows

// The path, or why it failed. The reported reason is that of the preferred directory.
std::string open_first(int socket, const DoorPlan& plan, int pid) {
  std::string why;
  for (const auto& directory : plan.directories) {
    const auto path = open_door(socket, directory, pid);
    if (path) return opened_mark + *path;
    if (why.empty() || !directory.is_parent_own) why = path.error().reason;
  }
  return failed_mark + why;
}

}  // namespace

std::string no_door_text(const std::string& why) {
  return fmt::format("no control socket, so cpprunctl needs --address: {}", why);
}

ControlSocket::ControlSocket(asio::io_context& context, HelperProcesses& side, DoorPlan plan,
                             Callbacks callbacks)
    : side_(side),
      plan_(std::move(plan)),
      callbacks_(std::move(callbacks)),
      timer_(context),
      news_(context),
      visitors_(context) {
  timer_.expires_after(std::chrono::duration_cast<asio::steady_timer::duration>(plan_.after));
  timer_.async_wait([this, alive = alive_](const asio::error_code& cancelled) {
    if (!cancelled && *alive) open();
  });
}

ControlSocket::~ControlSocket() {
  *alive_ = false;
  if (path_.empty()) hear_last();
  if (path_.empty()) return;
  const auto remove = [this] {
    remove_door(path_);
    return std::string();
  };
  if (path_.starts_with("/run/")) {
    remove();
  } else {
    (void)side_.ask(remove, plan_.timeout);  // the result is not needed
  }
}

void ControlSocket::open() {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  asio::error_code error;
  if (socket) visitors_.assign(socket.get(), error);
  if (!socket || error) {
    return callbacks_.trouble("cannot create the control socket: " +
                              (socket ? error.message() : errno_text(errno)));
  }
  (void)socket.release();  // now owned by the stream
  open_aside();
}

void ControlSocket::adopt(int socket, const std::string& path) {
  timer_.cancel();
  visitors_.assign(socket);
  path_ = path;
  listen();
}

// This process owns the socket; a helper process binds it to a path.
void ControlSocket::open_aside() {
  const int socket = visitors_.native_handle();
  const int pid = ::getpid();
  DoorPlan at_hand = plan_;
  std::erase_if(at_hand.directories, [](const auto& each) { return !each.is_at_hand(); });
  if (!at_hand.directories.empty()) {
    const auto answer = open_first(socket, at_hand, pid);
    if (answer.front() == opened_mark || at_hand.directories.size() == plan_.directories.size()) {
      return opened(answer);
    }
  }
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return opened(failed_mark + errno_text(errno));
  const FileDescriptor theirs{ends[1]};
  news_.assign(ends[0]);
  const auto work = [&] {
    // Blocked on a hanging disk, the helper would outlive this process and create a socket without
    // a server.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    write_all(ends[1], open_first(socket, plan_, pid));
  };
  const auto started = side_.start({ends[1], socket}, work);
  if (!started) return opened(failed_mark + started.error().reason);
  side_pid_ = *started;
  hear();
}

void ControlSocket::hear() {
  news_.async_wait(asio::posix::stream_descriptor::wait_read,
                   [this, alive = alive_](const asio::error_code& cancelled) {
                     if (cancelled || !*alive) return;
                     std::array<char, 4096> some;
                     const auto got = ::read(news_.native_handle(), some.data(), some.size());
                     if (got > 0) answer_.append(some.data(), static_cast<std::size_t>(got));
                     if (got != 0) return hear();
                     news_.close();
                     if (::waitpid(side_pid_, nullptr, 0) == side_pid_) side_.reaped(side_pid_);
                     opened(answer_);
                   });
}

// The helper may just have created the socket; without its path this process could not remove it.
void ControlSocket::hear_last() {
  if (!news_.is_open()) return;
  const auto rest = read_until_end(news_.native_handle(), plan_.timeout, /*is_of_each=*/false);
  if (rest) answer_ += *rest;
  if (!answer_.empty() && answer_.front() == opened_mark) path_ = answer_.substr(1);
}

void ControlSocket::opened(const std::string& answer) {
  if (!answer.empty() && answer.front() == opened_mark) {
    path_ = answer.substr(1);
    if (callbacks_.opened) callbacks_.opened(path_);
    return listen();
  }
  const auto why = answer.empty() ? "the process that creates it has exited" : answer.substr(1);
  callbacks_.trouble(no_door_text(why));
}

void ControlSocket::listen() {
  visitors_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [this, alive = alive_](const asio::error_code& cancelled) {
                         if (cancelled || !*alive) return;
                         if (!let_in()) return rest();
                         if (*alive) listen();
                       });
}

// Accepting failed, for example for lack of file descriptors. Retries later; waiting clients stay
// queued.
void ControlSocket::rest() {
  timer_.expires_after(bounds::door_rest);
  timer_.async_wait([this, alive = alive_](const asio::error_code& cancelled) {
    if (!cancelled && *alive) listen();
  });
}

bool ControlSocket::let_in() {
  FileDescriptor socket(
      ::accept4(visitors_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
  ucred who{};
  socklen_t size = sizeof who;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0) {
    callbacks_.client(std::move(socket), who.uid);
  }
  return true;
}

}  // namespace cpprun
