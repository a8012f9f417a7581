// SPDX-License-Identifier: BSD-3-Clause
// From bytes to decided requests, without a socket: complete, torn, many at once, hostile.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "proto/c10d/bounds.h"
#include "proto/c10d/codec.h"
#include "rendezvous/store/bounds.h"
#include "rendezvous/store/store_sessions.h"
#include "tests/proto/c10d_golden.h"
#include "tests/rendezvous/store/spoken.h"
#include "tests/rendezvous/store/string_sockets.h"

namespace session_requests_test {

using namespace cpprun;
using namespace std::chrono_literals;
using c10d::golden::bytes_of;

namespace {

constexpr std::size_t mib = 1024 * 1024;

}  // namespace

TEST_CASE("every captured exchange of every dialect is answered wherever a packet ends") {
  for (const c10d::golden::Exchange& exchange : c10d::golden::exchanges()) {
    CAPTURE(exchange.name);
    std::size_t longest = 0;
    for (const auto& step : exchange.steps) longest = std::max(longest, bytes_of(step.sent).size());
    for (std::size_t cut = 0; cut < longest; ++cut) {
      CAPTURE(cut);
      // A torn APPEND of B cannot be distinguished from A's DELETE_KEY; a separate test covers
      // that.
      if (cut > 0 && exchange.dialect == c10d::Dialect::b) break;
      StringSockets sockets;
      const int client = sockets.dial(exchange.given);
      for (const c10d::golden::Step& step : exchange.steps) {
        CAPTURE(step.sent);
        const std::string bytes = bytes_of(step.sent);
        std::string heard = sockets.ask(client, bytes.substr(0, cut));
        if (cut < bytes.size()) heard += sockets.ask(client, bytes.substr(cut));
        if (step.answer.empty()) continue;  // there is no answer, or it comes later
        CHECK(heard == bytes_of(step.answer));
      }
      CHECK_FALSE(sockets[client].end);
    }
  }
}

TEST_CASE("a client that sends single bytes is answered like any other") {
  StringSockets sockets;
  const int client = sockets.dial();
  std::string heard;
  const std::vector<c10d::KeyValue> entries{{"a", "1"}, {"b", "2"}};
  const std::vector<c10d::Bytes> keys{"a", "b"};
  for (const char byte : hello + request(c10d::MultiSet{entries}) + request(c10d::Add{"n", 5}) +
                             request(c10d::MultiGet{keys})) {
    heard += sockets.ask(client, std::string(1, byte));
  }
  CHECK(heard == number(5) + value("1") + value("2"));
}

TEST_CASE("requests that arrive together are answered in order, with one write") {
  StringSockets sockets;
  const int client = sockets.dial();
  const std::string heard =
      sockets.ask(client, hello + request(c10d::Ping{1}) + request(c10d::Set{"k", "v"}) +
                              request(c10d::Get{"k"}) + request(c10d::Add{"n", 2}));
  CHECK(heard == bytes_of("01000000") + value("v") + number(2));
  CHECK(sockets[client].write_count == 1);
}

TEST_CASE("a torn MULTI_SET changes nothing, however much of it has arrived") {
  const std::vector<c10d::KeyValue> entries{{"a", "1"}, {"b", "2"}};
  const std::string bytes = request(c10d::MultiSet{entries});
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    StringSockets sockets;
    const int client = sockets.dial();
    CHECK(sockets.ask(client, hello + bytes.substr(0, size)).empty());
    CHECK(sockets.store.key_count() == 0);
    sockets.leave(client);
    CHECK(sockets[client].left_by_itself);
    CHECK(sockets.accounting->bytes_held() == 0);
  }
}

TEST_CASE("an invalid length ends its client with a reason and allocates nothing") {
  struct Hostile {
    std::string bytes;
    std::string reason;
  };
  const std::vector<Hostile> table{
      {bytes_of("03 0000000000000040"), "a key of 4611686018427387904 bytes, more than 8192"},
      {bytes_of("03 ffffffffffffffff"), "a key of 18446744073709551615 bytes, more than 8192"},
      {bytes_of("01 01..00 'k' 0000000000000040"),
       "a value of 4611686018427387904 bytes, more than 268435456"},
      {bytes_of("05 ffffffffffffffff"),
       "18446744073709551615 keys in one request, more than 131072"},
      {bytes_of("ff"), "unknown opcode 255"},
  };
  for (const Hostile& hostile : table) {
    CAPTURE(hostile.reason);
    StringSockets sockets;
    const int client = sockets.dial();
    // Requests before it are still answered.
    CHECK(sockets.ask(client, hello + request(c10d::Add{"n", 1}) + hostile.bytes) == number(1));
    CHECK(sockets[client].end == hostile.reason);
    CHECK_FALSE(sockets[client].left_by_itself);
    CHECK(sockets.sessions.size() == 0);
  }
}

TEST_CASE("announced bytes cost no memory") {
  StringSockets sockets;
  const int client = sockets.dial();
  sockets.ask(client, hello + bytes_of("01 01..00 'k' 0000800c00000000 'begins'"));
  CHECK(sockets.accounting->bytes_held() < 100);
}

TEST_CASE("a client with thousands of requests in a packet does not keep others waiting") {
  StringSockets sockets({.work_per_turn = 64 * 1024, .work_per_visit = 16 * 1024});
  const int greedy = sockets.dial();
  const int modest = sockets.dial();
  sockets.ask(greedy, hello);
  sockets.ask(modest, hello);
  std::string many;
  for (int at = 0; at < 1500; ++at) many += request(c10d::Add{"n", 1});
  sockets.say(greedy, many);
  sockets.say(modest, request(c10d::Add{"modest", 1}));
  sockets.turn();
  sockets.turn();
  CHECK(sockets[modest].heard == number(1));
  CHECK(sockets[greedy].heard.size() < 1500 * 8);
  CHECK(sockets.until_quiet() > 3);
  CHECK(sockets[greedy].heard.size() == 1500 * 8);
  CHECK(sockets[greedy].heard.ends_with(number(1500)));
}

TEST_CASE("a DELETE_KEY that might become an APPEND is answered after a timeout") {
  StringSockets sockets;
  const int client = sockets.dial();
  CHECK(sockets.ask(client, bytes_of("03 02..00 '/k' 01..00")) == number(1));
  CHECK(sockets.ask(client, bytes_of("08 02..00 '/k'")).empty());
  CHECK(sockets.sessions.next_deadline() == sockets.now + bounds::store_dialect_grace);
  sockets.pass(bounds::store_dialect_grace);
  CHECK(sockets[client].heard == number(1));
  CHECK(sockets.store.key_count() == 0);
}

TEST_CASE("the first bytes identify the protocol, and an agent is handed over with all its bytes") {
  StringSockets sockets;
  const int agent = sockets.dial();
  sockets.ask(agent, "cppr");
  CHECK_FALSE(sockets[agent].handed_over);
  sockets.ask(agent, "un1\nand more");
  CHECK(sockets[agent].handed_over == "cpprun1\nand more");
  CHECK(sockets.sessions.size() == 0);
  const int scanner = sockets.dial();
  sockets.ask(scanner, "GET / HTTP/1.1\r\n\r\n");
  CHECK(sockets[scanner].end == "an HTTP request on a port for store clients and agents");
  sockets.refusal = "not a member of round 3";
  const int unidentified = sockets.dial();
  CHECK(sockets.ask(unidentified, hello + request(c10d::Add{"n", 1})).empty());
  CHECK(sockets[unidentified].end == "not a member of round 3");
  CHECK(sockets.store.key_count() == 0);
  CHECK(sockets.accounting->bytes_held() == 0);
}

TEST_CASE("a browser and a TLS client are handed over if the port supports them") {
  StringSockets sockets;
  const auto store = [&sockets]() -> Store& { return sockets.store; };
  sockets.sessions.open_port(0, store, {.http = true});
  const int browser = sockets.dial();
  sockets.ask(browser, "GET /met");
  CHECK(sockets[browser].handed_over == "GET /met");
  CHECK(sockets[browser].speaks == Protocol::http);
  const int agent = sockets.dial();
  sockets.ask(agent, "cpprun1\n");
  CHECK(sockets[agent].handed_over == "cpprun1\n");
  CHECK(sockets[agent].speaks == Protocol::link);
  const int secure = sockets.dial();
  sockets.ask(secure, "\x16\x03\x01");
  CHECK(sockets[secure].end == "a TLS handshake on a port for store clients and agents");
  sockets.sessions.open_port(0, store, {.secure = true});
  const int member = sockets.dial();
  sockets.ask(member, "\x16");
  sockets.ask(member, "\x03\x01");
  CHECK(sockets[member].handed_over == "\x16\x03\x01");
  CHECK(sockets[member].speaks == Protocol::secure);
  CHECK(sockets.accounting->bytes_held() == 0);
}

TEST_CASE("half a greeting is closed after a while, and a silent client may stay") {
  StringSockets sockets;
  const int silent = sockets.dial();
  const int half = sockets.dial();
  sockets.ask(half, "cpprun1");
  sockets.pass(bounds::first_message_timeout);
  CHECK(sockets[half].end == "incomplete greeting");
  CHECK(sockets.ask(silent, hello + request(c10d::Add{"n", 1})) == number(1));
}

TEST_CASE("a large value stays in its buffer, between other requests in one packet") {
  StringSockets sockets;
  const int client = sockets.dial();
  std::string large(20 * mib, 'x');
  for (std::size_t at = 0; at < large.size(); at += 4096) large[at] = static_cast<char>(at >> 12);
  const std::string heard =
      sockets.ask(client, hello + request(c10d::Add{"n", 1}) + request(c10d::Set{"k", large}) +
                              request(c10d::Add{"n", 1}) + request(c10d::Append{"k", "end"}));
  CHECK(heard == number(1) + number(2));
  CHECK(sockets.accounting->bytes_held() < 22 * mib);
  CHECK(sockets.ask(client, request(c10d::Get{"k"})) == value(large + "end"));
}

TEST_CASE("only a client that exceeds the memory limit is closed, with the figures") {
  StringSockets sockets({}, {.bytes_max = 16 * mib});
  const int modest = sockets.dial();
  const int greedy = sockets.dial();
  sockets.ask(modest, hello);
  sockets.ask(greedy, hello + request(c10d::Set{"k", std::string(20 * mib, 'v')}));
  REQUIRE(sockets[greedy].end);
  CHECK(sockets[greedy].end->starts_with("all clients together hold 13."));
  CHECK(sockets.ask(modest, request(c10d::Add{"n", 1})) == number(1));
}

TEST_CASE("tens of thousands of keys are listed over several turns, before the next request") {
  StringSockets sockets;
  const int client = sockets.dial();
  std::vector<std::string> names;
  for (int at = 0; at < 20'000; ++at) names.push_back("key" + std::to_string(at));
  std::vector<c10d::KeyValue> entries;
  std::size_t bytes = 8;
  for (const std::string& name : names) {
    entries.push_back({name, "v"});
    bytes += 8 + name.size();
  }
  sockets.ask(client, hello + request(c10d::MultiSet{entries}));
  sockets.say(client, request(c10d::ListKeys{}) + request(c10d::Add{"n", 1}));
  CHECK(sockets.until_quiet() >= 5);
  CHECK(sockets[client].heard.size() == bytes + 8);
  CHECK(sockets[client].heard.starts_with(number(20'000)));
  CHECK(sockets[client].heard.ends_with(number(1)));
}

}  // namespace session_requests_test
