// SPDX-License-Identifier: BSD-3-Clause
// Outgoing replies, without a socket: clients that do not read them, and replies that other clients
// cause.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "proto/c10d/codec.h"
#include "rendezvous/store/store_sessions.h"
#include "tests/proto/c10d_golden.h"
#include "tests/rendezvous/store/spoken.h"
#include "tests/rendezvous/store/string_sockets.h"

namespace session_replies_test {

using namespace cpprun;
using namespace std::chrono_literals;
using c10d::golden::bytes_of;

namespace {

constexpr std::size_t mib = 1024 * 1024;

}  // namespace

TEST_CASE("a reply that is read byte by byte arrives complete") {
  StringSockets sockets;
  const int client = sockets.dial();
  sockets[client].room = 0;
  CHECK(sockets.ask(client, hello + request(c10d::Set{"k", "value"}) + request(c10d::Get{"k"})) ==
        "");
  CHECK(sockets[client].is_watched_for_room);
  for (std::size_t at = 0; at < value("value").size(); ++at) sockets.take(client, 1);
  CHECK(sockets[client].heard == value("value"));
  CHECK_FALSE(sockets[client].is_watched_for_room);
  CHECK(sockets.accounting->bytes_held() < 1000);
}

TEST_CASE("a client that does not read replies is not served until it does, and loses nothing") {
  StringSockets sockets({.outbox_bytes_max = 100'000});
  const int client = sockets.dial();
  sockets.ask(client, hello + request(c10d::Set{"k", std::string(10'000, 'v')}));
  sockets[client].room = 0;
  std::string many;
  for (int at = 0; at < 100; ++at) many += request(c10d::Get{"k"});
  sockets.ask(client, many);
  CHECK_FALSE(sockets[client].is_watched_for_bytes);
  sockets.ask(client, request(c10d::Set{"late", "1"}));
  CHECK(sockets.store.key_count() == 1);
  for (int at = 0; at < 2000 && sockets[client].heard.size() < 100 * 10'008; ++at) {
    sockets.take(client, 1000);
    sockets.until_quiet();
  }
  CHECK(sockets[client].heard.size() == 100 * 10'008);
  CHECK(sockets[client].is_watched_for_bytes);
  CHECK(sockets.store.key_count() == 2);
}

TEST_CASE("a client that reads nothing for too long is dropped, and a slow reader is not") {
  StringSockets sockets({.outbox_bytes_max = 1000, .reader_stall_max = 30s});
  const int lazy = sockets.dial();
  const int slow = sockets.dial();
  const std::string ask = request(c10d::Get{"k"});
  sockets.ask(lazy, hello + request(c10d::Set{"k", std::string(5000, 'v')}));
  sockets.ask(slow, hello);
  sockets[lazy].room = sockets[slow].room = 0;
  sockets.ask(lazy, ask + ask);
  sockets.ask(slow, ask + ask);
  sockets.pass(20s);
  sockets.take(slow, 1);
  sockets.pass(10s);
  REQUIRE(sockets[lazy].end);
  CHECK(*sockets[lazy].end ==
        "did not read any of the 10016 bytes pending for it in the last 30000 ms");
  CHECK_FALSE(sockets[slow].end);
  sockets.pass(20s);
  CHECK(sockets[slow].end);
}

TEST_CASE("a large value is written from its own buffer, however many clients request it") {
  StringSockets sockets;
  const int setter = sockets.dial();
  const std::string large(16 * mib, 'v');
  sockets.ask(setter, hello + request(c10d::Set{"k", large}));
  std::vector<int> readers;
  for (int at = 0; at < 5; ++at) {
    readers.push_back(sockets.dial());
    sockets[readers.back()].room = 0;
    sockets.ask(readers.back(), hello + request(c10d::Get{"k"}));
  }
  CHECK(sockets.accounting->bytes_held() < 17 * mib);
  std::array<std::string_view, 4> first;
  std::array<std::string_view, 4> second;
  const auto of_first = sockets.sessions.pieces(sockets[readers[0]].id, first);
  const auto of_second = sockets.sessions.pieces(sockets[readers[1]].id, second);
  REQUIRE(of_first.size() == 2);
  CHECK(of_first[1].data() == of_second[1].data());
  CHECK(of_first[1].size() < 2 * mib);  // a slice in each turn
  // A reply has the value as of its request.
  sockets.ask(setter, request(c10d::Set{"k", "short"}));
  for (int at = 0; at < 40; ++at) sockets.take(readers[0], mib);
  CHECK(sockets[readers[0]].heard == value(large));
}

TEST_CASE("the waiters of one key are notified a few in each turn") {
  StringSockets sockets({.wakes_per_slice = 3});
  const std::vector<c10d::Bytes> keys{"go"};
  for (int at = 0; at < 10; ++at) sockets.ask(sockets.dial(), hello + request(c10d::Wait{keys}));
  CHECK(sockets.store.parked_count() == 10);
  const int setter = sockets.dial();
  sockets.say(setter, hello + request(c10d::Set{"go", "1"}));
  sockets.turn();
  int notified_count = 0;
  for (int at = 0; at < 10; ++at) notified_count += sockets[at].heard.empty() ? 0 : 1;
  CHECK(notified_count == 3);
  sockets.until_quiet();
  for (int at = 0; at < 10; ++at) CHECK(sockets[at].heard == std::string(1, '\0'));
}

TEST_CASE("a watcher that reads nothing is dropped when too many notices wait for it") {
  StringSockets sockets({.outbox_bytes_max = 100'000});
  const int watcher = sockets.dial(c10d::Dialect::a);
  const int setter = sockets.dial(c10d::Dialect::a);
  CHECK(sockets.ask(watcher, request(c10d::WatchKey{"w"}, c10d::Dialect::a)) == bytes_of("03"));
  sockets[watcher].room = 0;
  const std::string text(20'000, 'v');
  for (int at = 0; at < 10; ++at) {
    sockets.ask(setter, request(c10d::Set{"w", text}, c10d::Dialect::a));
  }
  REQUIRE(sockets[watcher].end);
  CHECK(sockets[watcher].end->starts_with("reads too slowly: "));
  CHECK_FALSE(sockets[setter].end);
}

TEST_CASE("a reply that contains a large value a hundred thousand times is rejected") {
  StringSockets sockets;
  const int client = sockets.dial();
  sockets.ask(client, hello + request(c10d::Set{"v", std::string(mib, 'v')}));
  const std::vector<c10d::Bytes> names(5'000, "v");
  CHECK(sockets.ask(client, request(c10d::MultiGet{names})) == "");
  CHECK(sockets[client].end == "asked for a reply of more than 1073741824 bytes");
}

}  // namespace session_replies_test
