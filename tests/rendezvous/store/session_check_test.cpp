// SPDX-License-Identifier: BSD-3-Clause
// Every test that drives sessions checks their invariants; this one checks that a complete session
// breaks none.

#include <doctest/doctest.h>

#include <string>

#include "proto/c10d/codec.h"
#include "tests/rendezvous/store/string_sockets.h"

namespace session_check_test {

using namespace cpprun;

TEST_CASE("a session keeps its invariants from the first to the last byte of a client") {
  StringSockets sockets;
  CHECK(sockets.sessions.check() == std::nullopt);
  const int alice = sockets.dial();
  sockets[alice].room = 3;
  std::string request;
  c10d::encode(c10d::Validate{}, c10d::Dialect::d, request);
  c10d::encode(c10d::Add{.key = "a", .delta = 1}, c10d::Dialect::d, request);
  for (const char byte : request) {
    sockets.say(alice, std::string_view(&byte, 1));
    (void)sockets.until_quiet();
    CHECK(sockets.sessions.check() == std::nullopt);
  }
  CHECK(sockets[alice].heard.size() == 3);
  sockets.leave(alice);
  CHECK(sockets.sessions.check() == std::nullopt);
}

TEST_CASE("unfinished work is not a broken invariant") {
  StringSockets sockets;
  const ConnectionId id = sockets.sessions.open(7, PeerAddress{}, 0, c10d::Dialect::undecided);
  sockets.sessions.close(id, "as a test wants it");
  CHECK(sockets.sessions.check() == std::nullopt);
  CHECK(sockets.sessions.next_action());
}

}  // namespace session_check_test
