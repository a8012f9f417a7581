// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The few socket functions that these tests need: a port held on loopback, and a peer that answers
// on it without being a cpprun.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <string_view>

#include "rendezvous/io/file_descriptor.h"

namespace cpprun::integration {

// Listens on 127.0.0.1; false if the port is in use. Port 0 takes any.
class Listener {
 public:
  explicit Listener(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
    const bool bound = ::bind(socket_.get(), generic, sizeof address) == 0;
    if (!bound || ::listen(socket_.get(), 16) != 0) socket_.reset();
  }

  explicit operator bool() const { return static_cast<bool>(socket_); }

  int port() const {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
  }

  // Accepts one connection and sends that on it; no descriptor if no client came in time.
  FileDescriptor answer(std::string_view text, int milliseconds_max) const {
    pollfd one{socket_.get(), POLLIN, 0};
    if (::poll(&one, 1, milliseconds_max) <= 0) return {};
    FileDescriptor peer(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    // A peer that has already left receives nothing, which does not matter here.
    static_cast<void>(::send(peer.get(), text.data(), text.size(), MSG_NOSIGNAL));
    return peer;
  }

 private:
  FileDescriptor socket_;
};

// Connects to that port of loopback and sends that on it; the caller reads the answer.
inline FileDescriptor speak(int port, std::string_view text) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(socket.get(), generic, sizeof address) != 0) return {};
  // A peer that hangs up at once receives nothing, which does not matter here.
  static_cast<void>(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL));
  return socket;
}

// Everything that arrives until the other side closes, or is silent for so long.
inline std::string heard_from(const FileDescriptor& socket, int milliseconds_max = 20'000) {
  std::string received;
  pollfd one{socket.get(), POLLIN, 0};
  char chunk[4096];
  while (::poll(&one, 1, milliseconds_max) > 0) {
    const ssize_t count = ::recv(socket.get(), chunk, sizeof chunk, 0);
    if (count <= 0) break;
    received.append(chunk, static_cast<std::size_t>(count));
  }
  return received;
}

}  // namespace cpprun::integration
