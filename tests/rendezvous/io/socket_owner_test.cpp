// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/socket_address.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "rendezvous/io/file_descriptor.h"

namespace socket_owner_test {

using namespace cpprun;

namespace {

PeerAddress address_of(const char* ip, std::uint16_t port) {
  PeerAddress address;
  in_addr four{};
  if (inet_pton(AF_INET, ip, &four) == 1) {
    address.ip[10] = address.ip[11] = 0xff;
    std::memcpy(address.ip.data() + 12, &four, 4);
  } else {
    REQUIRE(inet_pton(AF_INET6, ip, address.ip.data()) == 1);
  }
  address.port = port;
  return address;
}

const SocketPair pair_of_ipv4{address_of("127.0.0.1", 5000), address_of("127.0.0.1", 29400)};

// The kernel's answer for a socket that it has found.
std::string found(std::uint32_t user, std::uint32_t inode, std::uint16_t port = 5000) {
  struct {
    nlmsghdr head{};
    inet_diag_msg message{};
  } answer;
  answer.head.nlmsg_len = sizeof answer;
  answer.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  answer.message.id.idiag_sport = htons(port);
  answer.message.id.idiag_dport = htons(29400);
  answer.message.idiag_uid = user;
  answer.message.idiag_inode = inode;
  return {reinterpret_cast<const char*>(&answer), sizeof answer};
}

std::string refused(int error) {
  struct {
    nlmsghdr head{};
    nlmsgerr error{};
  } answer;
  answer.head.nlmsg_len = sizeof answer;
  answer.head.nlmsg_type = NLMSG_ERROR;
  answer.error.error = -error;
  return {reinterpret_cast<const char*>(&answer), sizeof answer};
}

std::string why(const std::string& answer) {
  const auto owner = read_owner(answer, pair_of_ipv4);
  return owner ? "" : owner.error().reason;
}

// Two ends of a connection over loopback, and the addresses that the accepting end sees.
struct Connected {
  explicit Connected(int family, bool dual) {
    const FileDescriptor listening(::socket(dual ? AF_INET6 : family, SOCK_STREAM, 0));
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    if (dual || family == AF_INET6) {
      auto& six = reinterpret_cast<sockaddr_in6&>(bound);
      six.sin6_family = AF_INET6;
      if (!dual) six.sin6_addr = in6addr_loopback;
    } else {
      auto& four = reinterpret_cast<sockaddr_in&>(bound);
      four.sin_family = AF_INET;
      four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    auto* const name = reinterpret_cast<sockaddr*>(&bound);
    if (::bind(listening.get(), name, sizeof bound) != 0) return;
    REQUIRE(::listen(listening.get(), 1) == 0);
    REQUIRE(::getsockname(listening.get(), name, &size) == 0);
    const auto port = local_address_of(listening.get()).port;
    theirs = FileDescriptor(::socket(family, SOCK_STREAM, 0));
    sockaddr_storage to{};
    if (family == AF_INET6) {
      auto& six = reinterpret_cast<sockaddr_in6&>(to);
      six = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_loopback};
    } else {
      auto& four = reinterpret_cast<sockaddr_in&>(to);
      four.sin_family = AF_INET;
      four.sin_port = htons(port);
      four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    REQUIRE(::connect(theirs.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
    size = sizeof bound;
    ours = FileDescriptor(::accept(listening.get(), name, &size));
    peer = peer_of(bound);
  }
  FileDescriptor ours;
  FileDescriptor theirs;
  PeerAddress peer;
};

void check_owner(int family, bool dual) {
  const Connected connected(family, dual);
  if (!connected.ours) return;  // no IPv6 here
  const auto owner = owner_of_peer(connected.ours.get(), connected.peer);
  if (!owner) CAPTURE(owner.error().reason);
  REQUIRE(owner);
  CHECK(*owner == ::geteuid());
}

}  // namespace

TEST_CASE("the kernel names the owner of a connection over loopback") {
  check_owner(AF_INET, false);
  check_owner(AF_INET, true);
  check_owner(AF_INET6, false);
}

TEST_CASE("an end that its owner has closed has no owner, and is not root's") {
  Connected connected(AF_INET, false);
  const PeerAddress peer = connected.peer;
  connected.theirs.reset();
  const auto owner = owner_of_peer(connected.ours.get(), peer);
  REQUIRE_FALSE(owner);
  CHECK(owner.error().reason.find("the client's socket") != std::string::npos);
}

TEST_CASE("an answer is parsed, and an invalid one is rejected with a reason") {
  CHECK(read_owner(found(1000, 7), pair_of_ipv4) == 1000U);
  CHECK(why(found(0, 0)) == "the client's socket is closed");
  CHECK(why(found(0, 7, 5001)) == "the kernel reported another connection");
  CHECK(why(refused(ENOENT)) == "the client's socket no longer exists");
  CHECK(why(refused(EPERM)) == "the kernel reports an error: Operation not permitted");
  CHECK(why("") == "incomplete reply from the kernel");
  for (std::size_t size = 0; size < found(1000, 7).size(); ++size) {
    CHECK_FALSE(read_owner(found(1000, 7).substr(0, size), pair_of_ipv4));
  }
}

TEST_CASE("a query names both ends, IPv4 by its four bytes") {
  const std::string question = owner_question(pair_of_ipv4);
  inet_diag_req_v2 request{};
  REQUIRE(question.size() == NLMSG_HDRLEN + sizeof request);
  std::memcpy(&request, question.data() + NLMSG_HDRLEN, sizeof request);
  CHECK(request.sdiag_family == AF_INET);
  CHECK(request.id.idiag_sport == htons(5000));
  CHECK(request.id.idiag_dport == htons(29400));
  CHECK(request.id.idiag_src[0] == htonl(INADDR_LOOPBACK));
  const SocketPair six{address_of("::1", 1), address_of("::1", 2)};
  std::memcpy(&request, owner_question(six).data() + NLMSG_HDRLEN, sizeof request);
  CHECK(request.sdiag_family == AF_INET6);
  CHECK(request.id.idiag_src[3] == htonl(1));
}

}  // namespace socket_owner_test
