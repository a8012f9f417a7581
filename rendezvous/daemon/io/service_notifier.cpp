// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/service_notifier.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "proto/text.h"
#include "rendezvous/daemon/notification.h"

namespace cpprun {

static_assert(notify_name_bytes_max == sizeof(sockaddr_un::sun_path) - 1);

std::string ServiceNotifier::connect(const std::string& address) {
  if (address.empty()) return {};
  FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno_text(errno);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::size_t size = address.copy(name.sun_path, sizeof name.sun_path - 1);
  // A name without a file is as long as it is said to be; zeros at its end would be part of it.
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size +
                                             (address.front() == '\0' ? 0 : 1));
  const auto* const generic = reinterpret_cast<const sockaddr*>(&name);
  if (::connect(socket.get(), generic, length) != 0) return errno_text(errno);
  socket_ = std::move(socket);
  return {};
}

std::string ServiceNotifier::say(std::string_view message) {
  if (!socket_) return {};
  const auto sent =
      ::send(socket_.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 ? errno_text(errno) : std::string();
}

}  // namespace cpprun
