// SPDX-License-Identifier: BSD-3-Clause
// Sessions that reach the same state as those of another process. Random sessions, with streams,
// images and takeovers, are in tests/rendezvous/coordinator/io/store_replay_test.cpp.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "proto/c10d/codec.h"
#include "rendezvous/store/store_log.h"
#include "tests/rendezvous/store/string_sockets.h"

namespace session_replay_test {

using namespace cpprun;
using Kind = StoreRecord::Kind;

namespace {

std::string bytes_of(const c10d::Request& request) {
  std::string bytes;
  c10d::encode(request, c10d::Dialect::d, bytes);
  return bytes;
}

// A process that decides, and a process that reads its log. Their clients have the same numbers.
struct Pair {
  Pair() {
    first.sessions.keep_journal(0, &log);
    second.store.take_all(true);
    second.sessions.begin_replay(0);
  }
  int dial() {
    (void)first.dial();
    const int client = second.dial();
    first.say(client, bytes_of(c10d::Validate{}));
    return client;
  }
  void ask(int client, const c10d::Request& request) { first.say(client, bytes_of(request)); }
  // Every request is decided, there and here.
  void work() {
    first.until_quiet();
    StoreLogReader reader;
    reader.hear(log.take());
    while (true) {
      const auto record = reader.next();
      REQUIRE(record);
      if (!*record) break;
      read(**record);
    }
    second.until_quiet();
  }
  void read(const StoreRecord& record) {
    auto& to = second.sessions;
    if (record.kind == Kind::read) to.replay_read(record.client, record.bytes);
    if (record.kind == Kind::decided) CHECK(to.replay_decided(record.client, record.count));
    if (record.kind == Kind::listed) {
      CHECK(to.replay_listed(record.client, record.count, record.bytes));
    }
    if (record.kind == Kind::abandoned) to.replay_abandoned(record.client);
    if (record.kind == Kind::closed) second.sessions.close(record.client, "closed on the leader");
    kinds.push_back(record.kind);
  }

  StoreLog log;
  StringSockets first;
  StringSockets second;
  std::vector<Kind> kinds;
};

}  // namespace

TEST_CASE("a process that reads the log sends the same replies to the same clients") {
  Pair pair;
  const int alice = pair.dial();
  const int bob = pair.dial();
  const std::string_view keys[] = {"a"};
  pair.ask(bob, c10d::Wait{keys});
  pair.work();
  pair.ask(alice, c10d::Add{.key = "a", .delta = 3});
  pair.ask(alice, c10d::Add{.key = "a", .delta = 4});
  pair.ask(alice, c10d::ListKeys{});
  pair.work();
  CHECK(pair.second[alice].heard == pair.first[alice].heard);
  CHECK(pair.second[bob].heard == pair.first[bob].heard);
  CHECK(pair.second[bob].heard.size() == 1);
  CHECK(pair.second.store.key_count() == 1);
}

TEST_CASE("a partial request is partial in the copy, and is decided when it is complete") {
  Pair pair;
  const int alice = pair.dial();
  const std::string request = bytes_of(c10d::Set{.key = "a", .value = std::string(200'000, 'v')});
  pair.first.say(alice, request.substr(0, 150'000));
  pair.work();
  CHECK(pair.second.store.key_count() == 0);
  pair.first.say(alice, request.substr(150'000));
  pair.work();
  CHECK(pair.second.store.key_count() == 1);
  CHECK(pair.second.sessions.check() == std::nullopt);
}

TEST_CASE("a request that ends its client changes nothing, and the client is gone on both sides") {
  Pair pair;
  const int alice = pair.dial();
  const int bob = pair.dial();
  pair.ask(alice, c10d::Set{.key = "a", .value = "no number"});
  pair.ask(alice, c10d::Add{.key = "a", .delta = 1});
  pair.work();
  CHECK(pair.first[alice].end);
  CHECK(pair.second[alice].end);
  CHECK_FALSE(pair.second[bob].end);
  CHECK(std::ranges::count(pair.kinds, Kind::closed) == 1);
}

TEST_CASE("a request that was read but not decided there is decided here after a takeover") {
  Pair pair;
  const int alice = pair.dial();
  pair.work();
  pair.log.read(pair.first[alice].id, bytes_of(c10d::Add{.key = "a", .delta = 5}));
  pair.work();
  CHECK(pair.second.store.key_count() == 0);
  pair.second.sessions.end_replay(0);
  pair.second.until_quiet();
  CHECK(pair.second.store.key_count() == 1);
  CHECK(pair.second[alice].heard.size() == 8);
}

TEST_CASE("a log with an invalid record is rejected") {
  Pair pair;
  const int alice = pair.dial();
  pair.work();
  auto& to = pair.second.sessions;
  const ConnectionId id = pair.second[alice].id;
  CHECK_FALSE(to.replay_decided(id, 1));
  CHECK_FALSE(to.replay_decided(ConnectionId{99}, 1));
  to.replay_read(id, "\x63garbage");
  CHECK_FALSE(to.replay_decided(id, 4));
  CHECK_FALSE(to.replay_listed(id, 1, "x"));
}

TEST_CASE("while a port is held no request is decided, and afterwards all are") {
  StringSockets sockets;
  const int alice = sockets.dial();
  (void)sockets.ask(alice, bytes_of(c10d::Validate{}));
  sockets.sessions.hold(0);
  CHECK(sockets.sessions.is_held(sockets[alice].id));
  CHECK(sockets.sessions.can_be_shown(0));
  sockets.say(alice, bytes_of(c10d::Add{.key = "a", .delta = 1}));
  (void)sockets.turn();
  CHECK(sockets.store.key_count() == 0);
  sockets.sessions.let_go(0);
  CHECK(sockets.ask(alice, "").size() == 8);
}

TEST_CASE("a client is exported with its partial request and its unsent replies") {
  StringSockets sockets;
  const int alice = sockets.dial();
  (void)sockets.ask(alice, bytes_of(c10d::Validate{}));
  sockets[alice].room = 3;
  const std::string request = bytes_of(c10d::Add{.key = "a", .delta = 1});
  (void)sockets.ask(alice, request + request.substr(0, 5));
  int shown_count = 0;
  StringSockets other;
  const int there = other.dial();
  sockets.sessions.show(0, [&](const StoreSessions::Shown& shown) {
    ++shown_count;
    CHECK(shown.inbox == request.substr(0, 5));
    CHECK(shown.outbox.size() == 5);
    other.sessions.begin_replay(0);
    other.sessions.restore(other[there].id, shown.conversation, shown.inbox, shown.outbox);
    other.sessions.end_replay(0);
  });
  CHECK(shown_count == 1);
  other.until_quiet();
  CHECK(other.ask(there, "").size() == 5);
  CHECK(other.ask(there, request.substr(5)).size() == 8);
}

TEST_CASE("an entry without a taker during an export is passed on afterwards") {
  Pair pair;
  const int alice = pair.dial();
  const int bob = pair.dial();
  const int carol = pair.dial();
  const std::string_view keys[] = {"q"};
  pair.ask(alice, c10d::Wait{keys});
  pair.ask(bob, c10d::Wait{keys});
  pair.ask(carol, c10d::QueuePush{.key = "q", .value = "entry"});
  pair.work();
  REQUIRE(pair.first[alice].heard.size() == 1);
  auto& sessions = pair.first.sessions;
  sessions.hold(0);
  REQUIRE(sessions.can_be_shown(0));
  std::vector<ConnectionId> ids;
  sessions.show(0, [&](const StoreSessions::Shown& shown) { ids.push_back(shown.id); });
  REQUIRE(ids.size() == 3);
  // She was woken for the entry and does not take it, so the next client gets it.
  sessions.close(ids[0], "it is over");
  pair.first.until_quiet();
  CHECK(pair.first[bob].heard.empty());
  sessions.let_go(0);
  pair.first.until_quiet();
  CHECK(pair.first[bob].heard.size() == 1);
}

TEST_CASE("a store is exported only after the closing clients are gone") {
  Pair pair;
  (void)pair.dial();
  pair.work();
  auto& sessions = pair.first.sessions;
  sessions.hold(0);
  REQUIRE(sessions.can_be_shown(0));
  CHECK(sessions.close_clients(0, "its round is over") == 1);
  CHECK_FALSE(sessions.can_be_shown(0));
  pair.first.until_quiet();
  CHECK(sessions.can_be_shown(0));
}

}  // namespace session_replay_test
