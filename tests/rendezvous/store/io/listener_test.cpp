// SPDX-License-Identifier: BSD-3-Clause
// Opening a port. This program's own listen() replaces the C library's, since a race of two sockets
// within fifty nanoseconds cannot be arranged from outside.

#include "rendezvous/store/io/listener.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/store/bounds.h"

namespace listener_test {

namespace {

int calls = 0;                           // calls of listen() since the test started
int refusals_left = 0;                   // that many more calls find the port in use
std::function<void()> before_listening;  // called once, by the next call

}  // namespace

extern "C" int listen(int fd, int backlog) noexcept {
  ++calls;
  if (before_listening) std::exchange(before_listening, nullptr)();
  if (refusals_left > 0) {
    --refusals_left;
    errno = EADDRINUSE;
    return -1;
  }
  return static_cast<int>(syscall(SYS_listen, fd, backlog));
}

using namespace cpprun;

namespace {

Result<OpenPort> open_port_that_refuses(int times) {
  calls = 0;
  refusals_left = times;
  return open_port("127.0.0.1", 0);
}

}  // namespace

TEST_CASE("two sockets that listen at once and are both refused do not both give up") {
  const auto open = open_port_that_refuses(1);
  REQUIRE(open.has_value());
  CHECK(calls == 2);
  CHECK(open->port != 0);
}

TEST_CASE("a port that can never be listened on is given up") {
  const auto open = open_port_that_refuses(1000);
  REQUIRE_FALSE(open.has_value());
  CHECK(open.error().reason == "cannot listen on 127.0.0.1:0: Address already in use");
  CHECK(calls == bounds::listen_attempts_max);
}

TEST_CASE("a port in use is rejected at once") {
  const auto first = open_port_that_refuses(0);
  REQUIRE(first.has_value());
  calls = 0;
  const auto second = open_port("127.0.0.1", first->port);
  REQUIRE_FALSE(second.has_value());
  CHECK(calls == 0);
}

namespace {

// As opened by another process and passed on.
FileDescriptor opened(int family, const char* host, bool is_v6_alone = false) {
  sockaddr_storage address{};
  address.ss_family = static_cast<sa_family_t>(family);
  void* const ip = family == AF_INET6
                       ? static_cast<void*>(&reinterpret_cast<sockaddr_in6&>(address).sin6_addr)
                       : &reinterpret_cast<sockaddr_in&>(address).sin_addr;
  REQUIRE(inet_pton(family, host, ip) == 1);
  FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int alone = is_v6_alone ? 1 : 0;
  if (family == AF_INET6) {
    (void)setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &alone, sizeof alone);
  }
  const bool is_there =
      socket && bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  if (!is_there || listen(socket.get(), 8) != 0) return {};
  return socket;
}

}  // namespace

TEST_CASE("an inherited socket is served, and its addresses can be reused") {
  refusals_left = 0;
  auto passed = opened(AF_INET, "127.0.0.1");
  const int number = passed.get();
  const auto port = take_port(std::move(passed));
  REQUIRE(port.has_value());
  CHECK(port->sockets.front().get() == number);
  CHECK(port->port != 0);
  CHECK(port->address == "127.0.0.1:" + std::to_string(port->port));
  CHECK(port->hosts == std::vector<std::string>{"127.0.0.1"});
  CHECK(take_port(opened(AF_INET, "0.0.0.0"))->hosts == std::vector<std::string>{"0.0.0.0"});
  CHECK(open_port(std::vector<std::string>{"0.0.0.0"}, 0)->address.starts_with("0.0.0.0:"));
}

TEST_CASE(
    "a socket for IPv6 and IPv4 counts as every interface, a socket for IPv6 alone does not") {
  refusals_left = 0;
  auto both = opened(AF_INET6, "::");
  if (!both) {
    MESSAGE("skipped: this machine has no IPv6");
    return;
  }
  CHECK(take_port(std::move(both))->hosts.empty());
  CHECK(take_port(opened(AF_INET6, "::", true))->hosts == std::vector<std::string>{"::"});
  CHECK(open_port(std::vector<std::string>{"::"}, 0)->address.starts_with("[::]:"));
  const auto mapped = take_port(opened(AF_INET6, "::ffff:127.0.0.1"));
  REQUIRE(mapped.has_value());
  CHECK(mapped->hosts == std::vector<std::string>{"127.0.0.1"});
  CHECK(open_port(mapped->hosts, 0).has_value());
}

TEST_CASE("a Unix path that another process is opening is in use") {
  refusals_left = 0;
  char directory[] = "/tmp/listener.XXXXXX";
  REQUIRE(mkdtemp(directory) != nullptr);
  const std::string host = "unix:" + std::string(directory) + "/store.sock";
  std::string reason;
  before_listening = [&] {
    const auto second = open_port(host, 0);
    if (!second) reason = second.error().reason;
  };
  {
    const auto first = open_port(host, 0);
    REQUIRE(first.has_value());
    CHECK(reason == "cannot listen on " + host + ": Address already in use");
    CHECK_FALSE(open_port(host, 0).has_value());  // it is not stale
  }
  CHECK(open_port(host, 0).has_value());
  CHECK(rmdir(directory) == 0);  // nothing is left in it
}

TEST_CASE("a socket without a port is rejected") {
  CHECK(
      take_port(FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))).error().reason ==
      "cannot serve on a socket that is not bound to a port");
}

}  // namespace listener_test
