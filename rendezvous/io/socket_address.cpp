// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/socket_address.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"

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

Result<socklen_t> fill_unix_address(const std::string& path, sockaddr_storage& into) {
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return failure("the path of a Unix socket must have 1 to " +
                   std::to_string(sizeof address.sun_path - 1) + " bytes, and \"" + path +
                   "\" has " + std::to_string(path.size()));
  }
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  std::memcpy(&into, &address, sizeof address);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
}

namespace {

struct Question {
  nlmsghdr head;
  inet_diag_req_v2 request;
};

// The last four bytes of a mapped address are the IPv4 one, which the kernel wants first.
void put_address(const PeerAddress& address, bool is_ipv4, std::uint32_t (&into)[4]) {
  if (is_ipv4) {
    std::memcpy(&into[0], address.ip.data() + 12, 4);
  } else {
    std::memcpy(&into[0], address.ip.data(), address.ip.size());
  }
}

// Of bytes that may begin anywhere: nothing where there are not enough of them.
template <class Value>
bool take(std::string_view bytes, std::size_t at, Value& into) {
  if (bytes.size() < at || bytes.size() - at < sizeof into) return false;
  std::memcpy(&into, bytes.data() + at, sizeof into);
  return true;
}

}  // namespace

std::string owner_question(const SocketPair& pair) {
  Question question{};
  question.head.nlmsg_len = sizeof question;
  question.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.head.nlmsg_flags = NLM_F_REQUEST;
  const bool is_ipv4 = pair.theirs.is_ipv4();
  inet_diag_req_v2& request = question.request;
  request.sdiag_family = is_ipv4 ? AF_INET : AF_INET6;
  request.sdiag_protocol = IPPROTO_TCP;
  request.idiag_states = ~std::uint32_t{0};
  request.id.idiag_sport = htons(pair.theirs.port);
  request.id.idiag_dport = htons(pair.ours.port);
  put_address(pair.theirs, is_ipv4, request.id.idiag_src);
  put_address(pair.ours, is_ipv4, request.id.idiag_dst);
  request.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return {reinterpret_cast<const char*>(&question), sizeof question};
}

Result<std::uint32_t> read_owner(std::string_view answer, const SocketPair& pair) {
  nlmsghdr head{};
  if (!take(answer, 0, head) || head.nlmsg_len > answer.size()) {
    return failure("incomplete reply from the kernel");
  }
  answer = answer.substr(0, head.nlmsg_len);
  if (head.nlmsg_type == NLMSG_ERROR) {
    nlmsgerr error{};
    if (!take(answer, NLMSG_HDRLEN, error)) return failure("incomplete reply from the kernel");
    if (error.error == -ENOENT) return failure("the client's socket no longer exists");
    return failure("the kernel reports an error: " + errno_text(-error.error));
  }
  inet_diag_msg found{};
  if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY || !take(answer, NLMSG_HDRLEN, found)) {
    return failure("unexpected reply from the kernel");
  }
  const bool is_it = found.id.idiag_sport == htons(pair.theirs.port) &&
                     found.id.idiag_dport == htons(pair.ours.port);
  if (!is_it) return failure("the kernel reported another connection");
  // The kernel reports root as the owner of a socket that was closed.
  if (found.idiag_inode == 0) return failure("the client's socket is closed");
  return found.idiag_uid;
}

Result<std::uint32_t> owner_of_peer(int socket, const PeerAddress& peer) {
  return owner_of_peer({.theirs = peer, .ours = local_address_of(socket)});
}

Result<std::uint32_t> owner_of_peer(const SocketPair& pair) {
  const FileDescriptor netlink(
      ::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
  if (!netlink) {
    const char* const hint = errno == EMFILE ? " (ulimit -n)" : "";
    return failure("cannot query the kernel: " + errno_text(errno) + hint);
  }
  const std::string question = owner_question(pair);
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  const auto* const to = reinterpret_cast<const sockaddr*>(&kernel);
  if (::sendto(netlink.get(), question.data(), question.size(), 0, to, sizeof kernel) < 0) {
    return failure("cannot query the kernel: " + errno_text(errno));
  }
  // The kernel has replied by the time sendto returns.
  std::array<char, 4096> answer;
  const ssize_t size = ::recv(netlink.get(), answer.data(), answer.size(), 0);
  if (size < 0) return failure("the kernel reports an error: " + errno_text(errno));
  return read_owner({answer.data(), static_cast<std::size_t>(size)}, pair);
}

}  // namespace cpprun
