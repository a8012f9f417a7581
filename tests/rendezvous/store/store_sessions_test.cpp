// SPDX-License-Identifier: BSD-3-Clause
// How connections wait, leave and are closed, without a socket.
#include "rendezvous/store/store_sessions.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "proto/c10d/codec.h"
#include "tests/proto/c10d_golden.h"
#include "tests/rendezvous/store/spoken.h"
#include "tests/rendezvous/store/string_sockets.h"

namespace store_sessions_test {

using namespace cpprun;

namespace {

std::string wait_for(c10d::Bytes key) {
  const std::vector<c10d::Bytes> keys{key};
  return request(c10d::Wait{keys});
}

}  // namespace

TEST_CASE("a wait is answered when another client sets the key") {
  StringSockets sockets;
  const int waiter = sockets.dial();
  const int setter = sockets.dial();
  CHECK(sockets.ask(waiter, hello + wait_for("k")) == "");
  sockets.ask(setter, hello + request(c10d::Set{"k", "v"}));
  CHECK(sockets[waiter].heard == std::string(1, '\0'));
}

TEST_CASE("a parked wait is cancelled by CANCEL_WAIT, by the next request, or by leaving") {
  StringSockets sockets;
  const int asked = sockets.dial();
  const int superseder = sockets.dial();
  const int leaver = sockets.dial();
  for (const int each : {asked, superseder, leaver}) sockets.ask(each, hello + wait_for("never"));
  CHECK(sockets.store.parked_count() == 3);
  CHECK(sockets.ask(asked, request(c10d::CancelWait{})) == std::string(1, '\1'));
  CHECK(sockets.store.parked_count() == 2);
  CHECK(sockets.ask(superseder, request(c10d::Add{"n", 1})) == number(1));
  CHECK(sockets.store.parked_count() == 1);
  sockets.leave(leaver);
  CHECK(sockets.store.parked_count() == 0);
  const int setter = sockets.dial();
  sockets.ask(setter, hello + request(c10d::Set{"never", "v"}));
  CHECK(sockets[asked].heard.empty());
  CHECK(sockets[superseder].heard.empty());
}

TEST_CASE("closing the clients of a port spares silent clients and is done in turns") {
  StringSockets sockets;
  const int silent = sockets.dial();
  for (int at = 1; at <= 100; ++at) sockets.ask(sockets.dial(), hello);
  CHECK(sockets.sessions.close_clients(0, "round 1 is over") == 100);
  sockets.say(50, request(c10d::Add{"late", 1}));
  sockets.turn();
  CHECK(sockets.sessions.size() > 50);
  sockets.until_quiet();
  CHECK(sockets.sessions.size() == 1);
  for (int at = 1; at <= 100; ++at) CHECK(sockets[at].end == "round 1 is over");
  CHECK(sockets.store.key_count() == 0);
  CHECK(sockets.ask(silent, hello + request(c10d::Add{"n", 1})) == number(1));
}

TEST_CASE("closing the clients of a port includes silent clients without a socket") {
  Store store;
  StoreSessions sessions({}, std::make_shared<MemoryAccounting>());
  sessions.open_port(0, [&store]() -> Store& { return store; });
  const ConnectionId perhaps_an_agent = sessions.open(3, {}, 0, c10d::Dialect::undecided);
  const ConnectionId stream = sessions.open(-2, {}, 0, c10d::Dialect::undecided);
  CHECK(sessions.close_clients(0, "round 1 is over") == 1);
  sessions.begin_turn(TimePoint{});
  while (sessions.close_next()) {
    while (sessions.next_action()) continue;
  }
  CHECK(sessions.is_heard(perhaps_an_agent));
  CHECK_FALSE(sessions.is_heard(stream));
  CHECK(sessions.size() == 1);
}

TEST_CASE("closing a port ends all of its connections without asking a store") {
  StringSockets sockets;
  const int client = sockets.dial();
  const int silent = sockets.dial();
  sockets.ask(client, hello + wait_for("k"));
  CHECK(sockets.sessions.close_port(0, "the job is over") == 2);
  sockets.until_quiet();
  CHECK(sockets[client].end == "the job is over");
  CHECK(sockets[silent].end == "the job is over");
  CHECK(sockets.sessions.size() == 0);
  CHECK(sockets.store.parked_count() == 1);  // clearing it is up to its owner
}

TEST_CASE("without memory for a client only that client is closed") {
  StringSockets sockets;
  const int greedy = sockets.dial();
  const int other = sockets.dial();
  sockets.ask(greedy, hello);
  sockets.ask(other, hello);
  sockets.sessions.lack_memory(sockets[greedy].id);
  CHECK(sockets.ask(other, request(c10d::Add{"n", 1})) == number(1));
  CHECK(sockets[greedy].end == "out of memory");
  CHECK_FALSE(sockets[other].end);
}

TEST_CASE("the longest silent client makes room, and the newest never does") {
  StringSockets sockets;
  const int first = sockets.dial();
  const int second = sockets.dial();
  const int newest = sockets.dial();
  sockets.ask(first, hello);
  CHECK(sockets.sessions.close_silent("others need it", sockets[newest].id));
  CHECK_FALSE(sockets.sessions.close_silent("others need it", sockets[newest].id));
  sockets.until_quiet();
  CHECK(sockets[second].end == "others need it");
  CHECK_FALSE(sockets[first].end);
  CHECK_FALSE(sockets[newest].end);
}

TEST_CASE("bytes for one client do not mix with replies to another") {
  StringSockets sockets;
  std::vector<int> clients;
  for (int at = 0; at < 20; ++at) clients.push_back(sockets.dial());
  for (const int client : clients) {
    sockets.say(client, hello + request(c10d::Set{std::to_string(client), std::to_string(client)}) +
                            request(c10d::Get{std::to_string(client)}));
  }
  sockets.until_quiet();
  for (const int client : clients) {
    CHECK(sockets[client].heard.substr(8) == std::to_string(client));
    CHECK(sockets[client].write_count == 1);
  }
}

}  // namespace store_sessions_test
