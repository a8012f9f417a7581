// SPDX-License-Identifier: BSD-3-Clause
// Opening a port. This program's own listen() stands in front of the C library's, since what two
// sockets do to each other within fifty nanoseconds cannot be arranged from outside.

#include "rendezvous/store/io/listener.h"

#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "proto/bounds.h"

namespace {

int calls = 0;          // of listen() since the test began
int refusals_left = 0;  // so many more of them find the port taken

}  // namespace

extern "C" int listen(int fd, int backlog) noexcept {
  ++calls;
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

TEST_CASE("two that begin to listen at once and are both refused do not both give up") {
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

TEST_CASE("a port that somebody listens on is refused at once") {
  const auto first = open_port_that_refuses(0);
  REQUIRE(first.has_value());
  calls = 0;
  const auto second = open_port("127.0.0.1", first->port);
  REQUIRE_FALSE(second.has_value());
  CHECK(calls == 0);
}
