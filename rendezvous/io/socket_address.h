// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Between the kernel's socket addresses and ours, and the user at the other end of a local
// connection.

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/result.h"
#include "rendezvous/peer_address.h"

namespace cpprun {

// All zeros for a family that is neither IPv4 nor IPv6.
PeerAddress peer_of(const sockaddr_storage& address);

// The address a socket is bound to.
PeerAddress local_address_of(int fd);
// The address of its other end.
PeerAddress peer_address_of(int fd);

// A Unix socket where an address is expected: "unix:/run/store.sock".
inline constexpr std::string_view unix_prefix = "unix:";
inline std::string unix_path(const std::string& host) {
  return host.substr(unix_prefix.size());
}
// The size of the address. Fails if the path is empty or too long.
Result<socklen_t> fill_unix_address(const std::string& path, sockaddr_storage& into);

// Finds the user at the other end of a connection on this machine. The kernel answers by
// NETLINK_SOCK_DIAG, in one request and one reply, without a search of all sockets.

// The two ends, from the point of view of the process in question.
struct SocketPair {
  PeerAddress theirs;
  PeerAddress ours;
};

// The bytes of the question, and what the answer says. Apart from asking, so that a test can play
// the kernel.
std::string owner_question(const SocketPair& pair);
Result<std::uint32_t> read_owner(std::string_view answer, const SocketPair& pair);

// The user that opened the other end of that connection.
Result<std::uint32_t> owner_of_peer(const SocketPair& pair);
// Of a connected socket of ours whose peer is on this machine: the user that opened the other end.
Result<std::uint32_t> owner_of_peer(int socket, const PeerAddress& peer);

}  // namespace cpprun
