// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/client/io/dial.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>

#include "proto/bounds.h"
#include "proto/c10d/encoder.h"
#include "proto/text.h"
#include "rendezvous/io/socket_address.h"

namespace cpprun {
namespace {

using Clock = std::chrono::steady_clock;
using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

int milliseconds_until(TimePoint deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000));
}

// True when the descriptor is ready before the deadline.
bool await(int fd, short events, TimePoint deadline) {
  pollfd watched{fd, events, 0};
  while (true) {
    const int count = poll(&watched, 1, milliseconds_until(deadline));
    if (count > 0) return true;
    if (count == 0 || errno != EINTR) return false;
  }
}

Result<FileDescriptor> connect_to(const addrinfo& address, TimePoint deadline) {
  FileDescriptor fd(socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return failure(errno_text(errno));
  if (connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return failure(errno_text(errno));
    if (!await(fd.get(), POLLOUT, deadline)) return failure("no answer");
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return failure(errno_text(error));
  }
  const int on = 1;
  // Without it everything works, only slower.
  (void)setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

// VALIDATE and PING: whatever is no store does not send the number back.
Result<void> shake_hands(int fd, TimePoint deadline) {
  const auto nonce = static_cast<std::uint32_t>(getpid());
  std::string hello;
  (void)c10d::encode(c10d::Validate{}, c10d::Dialect::d, hello);  // D has both
  (void)c10d::encode(c10d::Ping{nonce}, c10d::Dialect::d, hello);
  if (::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(hello.size())) {
    return failure(errno_text(errno));
  }
  std::string expected;
  c10d::encode(c10d::Pong{nonce}, expected);
  std::string heard;
  while (heard.size() < expected.size()) {
    if (!await(fd, POLLIN, deadline)) return failure("it answers, but not as a store");
    std::array<char, 4> bytes{};
    const ssize_t count = ::recv(fd, bytes.data(), expected.size() - heard.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) return failure(errno_text(errno));
    if (count == 0) return failure("it closed the connection");
    heard.append(bytes.data(), static_cast<std::size_t>(count));
  }
  if (heard != expected) return failure("it answers, but not as a store");
  return {};
}

// Every address of the name once.
Result<FileDescriptor> try_once(const std::string& host, std::uint16_t port, TimePoint deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return failure(gai_strerror(error));
  const AddressList list(found, &freeaddrinfo);
  Result<FileDescriptor> last = failure("the name has no address");
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    // A silent address must not use up the time of the others.
    const TimePoint patience =
        std::min(deadline, TimePoint(Clock::now() + bounds::store_client_attempt_max));
    last = connect_to(*at, patience);
    if (!last) continue;
    if (Result<void> shaken = shake_hands(last->get(), patience); !shaken) {
      last = failure(shaken.error().reason);
      continue;
    }
    return last;
  }
  return last;
}

}  // namespace

Result<FileDescriptor> dial_store(const std::string& host, std::uint16_t port, Duration timeout) {
  const TimePoint deadline = Clock::now() + timeout;
  Duration pause = bounds::store_client_pause_first;
  while (true) {
    Result<FileDescriptor> connected = try_once(host, port, deadline);
    if (connected) return connected;
    if (Clock::now() + pause >= deadline) {
      return failure(
          fmt::format("cannot reach a store at {}:{} within {} ms: {}", host, port,
                      std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count(),
                      connected.error().reason));
    }
    (void)poll(nullptr, 0, milliseconds_until(Clock::now() + pause));
    pause = std::min<Duration>(pause * 2, bounds::store_client_pause_max);
  }
}

}  // namespace cpprun
