// SPDX-License-Identifier: BSD-3-Clause
// Requests with very many keys take many turns and are atomic for other clients.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "proto/c10d/codec.h"
#include "rendezvous/store/store_sessions.h"
#include "tests/proto/c10d_golden.h"
#include "tests/rendezvous/store/spoken.h"
#include "tests/rendezvous/store/string_sockets.h"

namespace session_long_requests_test {

using namespace cpprun;

namespace {

constexpr int count = 50'000;

// That many names, as keys and as entries with a value of one letter.
struct Names {
  Names() {
    for (int at = 0; at < count; ++at) texts.push_back("key" + std::to_string(at));
    keys.assign(texts.begin(), texts.end());
    for (const c10d::Bytes key : keys) entries.push_back({key, "v"});
  }
  std::vector<std::string> texts;
  std::vector<c10d::Bytes> keys;
  std::vector<c10d::KeyValue> entries;
};

}  // namespace

TEST_CASE("a MULTI_SET of very many keys is visible completely or not at all") {
  const Names names;
  StringSockets sockets;
  const int other = sockets.dial();
  const int setter = sockets.dial();
  sockets.ask(other, hello);
  sockets.say(setter, hello + request(c10d::MultiSet{names.entries}) + request(c10d::Add{"n", 1}));
  int turns = 0;
  bool has_more = true;
  while (has_more && turns < 10'000) {
    sockets.say(other, request(c10d::GetNumKeys{}));
    has_more = sockets.turn();
    ++turns;
    if (sockets[setter].heard.size() == 8) break;
  }
  CHECK(turns > count / 2048);
  sockets.until_quiet();
  CHECK(sockets[setter].heard == number(1));
  const std::string& heard = sockets[other].heard;
  for (std::size_t at = 0; at + 8 <= heard.size(); at += 8) {
    const std::string seen = heard.substr(at, 8);
    CHECK((seen == number(0) || seen == number(count) || seen == number(count + 1)));
  }
}

TEST_CASE("a WAIT, a CHECK and a MULTI_GET of very many keys are answered like small ones") {
  const Names names;
  StringSockets sockets;
  const int waiter = sockets.dial();
  const int setter = sockets.dial();
  CHECK(sockets.ask(waiter, hello + request(c10d::Wait{names.keys})) == "");
  CHECK(sockets.store.parked_count() == 1);
  CHECK(sockets.ask(setter, hello + request(c10d::Check{names.keys})) == std::string(1, '\1'));
  sockets.ask(setter, request(c10d::MultiSet{names.entries}));
  CHECK(sockets[waiter].heard == std::string(1, '\0'));
  CHECK(sockets.ask(setter, request(c10d::Check{names.keys})) == std::string(1, '\0'));
  CHECK(sockets.ask(setter, request(c10d::MultiGet{names.keys})).size() == count * 9);
  CHECK(sockets.ask(waiter, request(c10d::Wait{names.keys})).size() == 2);
}

TEST_CASE("a client that leaves during a long request leaves no client waiting") {
  const Names names;
  StringSockets sockets;
  const int leaver = sockets.dial();
  const int other = sockets.dial();
  sockets.ask(other, hello);
  sockets.say(leaver, hello + request(c10d::Wait{names.keys}));
  while (!sockets.sessions.is_busy()) sockets.turn();
  sockets.leave(leaver);
  CHECK(sockets.ask(other, request(c10d::Add{"n", 1})) == number(1));
  CHECK(sockets.store.parked_count() == 0);
}

}  // namespace session_long_requests_test
