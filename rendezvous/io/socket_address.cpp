// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

namespace cpprun {

PeerAddress peer_of(const sockaddr_storage& address) {
  PeerAddress peer;
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, &address, sizeof six);
    std::memcpy(peer.ip.data(), &six.sin6_addr, peer.ip.size());
    peer.port = ntohs(six.sin6_port);
  } else if (address.ss_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &address, sizeof four);
    peer.ip[10] = peer.ip[11] = 0xff;
    std::memcpy(peer.ip.data() + 12, &four.sin_addr, 4);
    peer.port = ntohs(four.sin_port);
  }
  return peer;
}

PeerAddress local_address_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  // A socket that was just bound has an address; nothing else is asked here.
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  // The wildcard is :: also where the machine has no IPv6, so that one text stands for both.
  return peer_of(address);
}

PeerAddress peer_address_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  // Zeros if the peer is gone.
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return peer_of(address);
}

}  // namespace cpprun
