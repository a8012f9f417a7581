// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/io/connection_set.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "proto/c10d/codec.h"
#include "rendezvous/store/bounds.h"
#include "tests/proto/c10d_golden.h"
#include "tests/rendezvous/store/io/served_set.h"
#include "tests/rendezvous/store/spoken.h"

namespace connection_set_test {

using namespace cpprun;
using namespace std::chrono_literals;
using c10d::golden::bytes_of;

namespace {

std::size_t resident_bytes() {
  std::size_t total = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * 4096;
}

}  // namespace

TEST_CASE("every captured exchange works over a connection, at once and byte by byte") {
  for (const c10d::golden::Exchange& exchange : c10d::golden::exchanges()) {
    CAPTURE(exchange.name);
    for (const bool byte_by_byte : {false, true}) {
      // In small pieces APPEND cannot be distinguished from A's DELETE_KEY; a separate test covers
      // that.
      if (byte_by_byte && exchange.dialect == c10d::Dialect::b) continue;
      ServedSet served({}, "127.0.0.1", exchange.given);
      RawClient client(served.listening.port);
      for (const c10d::golden::Step& step : exchange.steps) {
        CAPTURE(step.sent);
        const std::string bytes = bytes_of(step.sent);
        const std::string answer = bytes_of(step.answer);
        for (std::size_t at = 0; byte_by_byte && at + 1 < bytes.size(); ++at) {
          served.say(client, bytes.substr(at, 1));
          served.set.serve(std::chrono::steady_clock::now());
        }
        served.say(client, byte_by_byte ? bytes.substr(bytes.size() - 1) : bytes);
        CHECK(served.hear(client, answer.size()) == answer);
      }
    }
  }
}

TEST_CASE("clients of all dialects share one store on one port") {
  ServedSet served;
  RawClient old(served.listening.port);
  RawClient modern(served.listening.port);
  served.say(old, bytes_of("00 02..00 '/k' 01..00 'v'"));
  CHECK(served.ask(old, bytes_of("03 02..00 '/n' 01..00"), 8) == number(1));
  served.say(modern, hello);
  CHECK(served.ask(modern, request(c10d::Get{"/k"}), 9) == value("v"));
}

TEST_CASE("a DELETE_KEY of dialect A is answered if it does not turn out to be an APPEND") {
  ServedSet served;
  RawClient client(served.listening.port);
  CHECK(served.ask(client, bytes_of("03 02..00 '/k' 01..00"), 8) == number(1));
  CHECK(served.ask(client, bytes_of("08 02..00 '/k'"), 8) == number(1));
  CHECK(served.the_store.key_count() == 0);
}

TEST_CASE("requests that arrive together are answered together and in order") {
  ServedSet served;
  RawClient client(served.listening.port);
  served.say(client, hello + request(c10d::Ping{1}) + request(c10d::Set{"k", "v"}) +
                         request(c10d::Get{"k"}) + request(c10d::Add{"n", 2}));
  CHECK(served.hear(client, 4 + 9 + 8) == bytes_of("01000000") + value("v") + number(2));
}

TEST_CASE("half a request delays no other client and costs nothing") {
  ServedSet served;
  RawClient half(served.listening.port);
  served.say(half, hello + request(c10d::Set{"k", "value"}).substr(0, 12));
  for (int at = 0; at < 100; ++at) {
    RawClient other(served.listening.port);
    CHECK(served.ask(other, hello + request(c10d::Add{"n", 1}), 8) == number(at + 1));
  }
  CHECK(served.the_store.key_count() == 1);
}

TEST_CASE("an announced length costs no memory") {
  ServedSet served;
  const std::size_t before = resident_bytes();
  std::vector<RawClient> clients;
  const std::string start = request(c10d::Set{"k", std::string(1000, 'v')});
  for (int at = 0; at < 500; ++at) {
    clients.emplace_back(served.listening.port);
    // 200 MiB each, of which only the first bytes arrive.
    served.say(clients.back(), hello + bytes_of("01 01..00 'k' 0000800c00000000 'begins'"));
  }
  RawClient other(served.listening.port);
  CHECK(served.ask(other, hello + request(c10d::Add{"n", 1}), 8) == number(1));
  CHECK(served.set.connection_count() == 501);
  CHECK(resident_bytes() - before < 100'000'000);
}

TEST_CASE("a length of 2^62 ends its connection with a reason") {
  ServedSet served;
  RawClient client(served.listening.port);
  served.say(client, hello + bytes_of("03 0000000000000040"));
  served.until_closed(client);
  CHECK(served.has_note("closed: a key of 4611686018427387904 bytes, more than 8192"));
  CHECK(served.notes[0].peer->host_text() == "127.0.0.1");
}

TEST_CASE("the bytes of a port scanner end its connection with a reason") {
  ServedSet served;
  for (const std::string& scan :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\x16\x03\x01\x02", 4),
        std::string("SSH-2.0-x\r\n"), std::string("\xff\xff\xff"), std::string("\r\n\r\n")}) {
    RawClient client(served.listening.port);
    served.say(client, scan);
    served.until_closed(client);
  }
  CHECK(served.has_note("closed: an HTTP request on a port for store clients and agents"));
  CHECK(served.has_note("closed: a TLS handshake on a port for store clients and agents"));
  CHECK(served.has_note("closed: an SSH client on a port for store clients and agents"));
  CHECK(served.notes.size() == 5);
  CHECK(served.set.connection_count() == 0);
}

TEST_CASE("requests before a bad request are still answered") {
  ServedSet served;
  RawClient client(served.listening.port);
  served.say(client, hello + request(c10d::Add{"n", 1}) + "\xff");
  CHECK(served.hear(client, 8) == number(1));
  served.until_closed(client);
  CHECK(served.has_note("closed: unknown opcode 255"));
}

TEST_CASE("a torn MULTI_SET changes nothing") {
  ServedSet served;
  RawClient client(served.listening.port);
  const std::vector<c10d::KeyValue> entries{{"a", "1"}, {"b", "2"}};
  const std::string bytes = request(c10d::MultiSet{entries});
  served.say(client, hello + bytes.substr(0, bytes.size() - 1));
  client.close();
  served.until([&] { return !served.notes.empty(); });
  CHECK(served.the_store.key_count() == 0);
  CHECK(served.notes[0].ordinary);
}

TEST_CASE("values beyond upstream's eight megabytes travel both ways") {
  ServedSet served;
  RawClient client(served.listening.port);
  std::string big(20 * 1024 * 1024, 'x');
  for (std::size_t at = 0; at < big.size(); at += 4096) big[at] = static_cast<char>(at >> 12);
  served.say(client, hello + request(c10d::Set{"big", big}));
  const std::vector<c10d::Bytes> twice{"big", "big"};
  CHECK(served.ask(client, request(c10d::MultiGet{twice}), 2 * (8 + big.size())) ==
        value(big) + value(big));
  CHECK(served.ask(client, request(c10d::Add{"n", 1}), 8) == number(1));
}

TEST_CASE("a client may send thousands of requests before it reads") {
  ServedSet served;
  RawClient client(served.listening.port);
  std::string many = hello + request(c10d::Set{"k", std::string(1000, 'v')});
  for (int at = 0; at < 10'000; ++at) many += request(c10d::Get{"k"});
  served.say(client, many);
  CHECK(served.hear(client, 10'000 * 1008).size() == 10'000 * 1008);
}

TEST_CASE("a client that does not read is kept for a while, then dropped with a reason") {
  ServedSet served({.outbox_bytes_max = 100'000, .reader_stall_max = 50ms});
  RawClient lazy(served.listening.port);
  served.say(lazy, hello + request(c10d::Set{"k", std::string(1'000'000, 'v')}));
  for (int at = 0; at < 100; ++at) lazy.offer(request(c10d::Get{"k"}));
  RawClient other(served.listening.port);
  CHECK(served.ask(other, hello + request(c10d::Add{"n", 1}), 8) == number(1));
  served.until([&] { return served.set.connection_count() == 1; });
  REQUIRE(served.notes.size() == 1);
  CHECK(served.notes[0].text.starts_with("closed: did not read any of the "));
  CHECK_FALSE(served.notes[0].ordinary);
  CHECK(served.ask(other, request(c10d::Add{"n", 1}), 8) == number(2));
}

TEST_CASE("a slow reader receives everything in the end") {
  ServedSet served({.outbox_bytes_max = 100'000});
  RawClient slow(served.listening.port);
  const std::string big(1'000'000, 'v');
  std::string many = hello + request(c10d::Set{"k", big});
  for (int at = 0; at < 30; ++at) many += request(c10d::Get{"k"});
  served.say(slow, many);
  for (int at = 0; at < 30; ++at) CHECK(served.hear(slow, 8 + big.size()) == value(big));
}

TEST_CASE("a watcher that does not read is dropped when too many notices wait for it") {
  ServedSet served({.outbox_bytes_max = 100'000}, "127.0.0.1", c10d::Dialect::a);
  RawClient watcher(served.listening.port);
  RawClient setter(served.listening.port);
  CHECK(served.ask(watcher, bytes_of("07 02..00 '/w'"), 1) == bytes_of("03"));
  std::string set;
  const std::string text(200'000, 'v');
  c10d::encode(c10d::Set{"/w", text}, c10d::Dialect::a, set);
  for (int at = 0; at < 100 && served.set.connection_count() == 2; ++at) {
    served.say(setter, set);
    served.ask(setter, bytes_of("06"), 8);
  }
  served.until([&] { return served.set.connection_count() == 1; });
  CHECK(served.notes[0].text.starts_with("closed: reads too slowly: "));
}

TEST_CASE("a key with many waiters wakes them in slices") {
  ServedSet served({.wakes_per_slice = 3});
  std::vector<RawClient> waiters;
  const std::vector<c10d::Bytes> keys{"go"};
  for (int at = 0; at < 10; ++at) {
    waiters.emplace_back(served.listening.port);
    served.say(waiters.back(), hello + request(c10d::Wait{keys}));
  }
  served.until([&] { return served.the_store.parked_count() == 10; });
  RawClient setter(served.listening.port);
  setter.offer(hello + request(c10d::Set{"go", "1"}));
  served.until([&] { return served.the_store.parked_count() == 0; });
  CHECK(served.set.serve(std::chrono::steady_clock::now()));
  for (RawClient& waiter : waiters) CHECK(served.hear(waiter, 1) == bytes_of("00"));
}

TEST_CASE("a waiter that is killed leaves no wait behind") {
  ServedSet served;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    RawClient waiter(served.listening.port);
    const std::vector<c10d::Bytes> keys{"never"};
    const std::string bytes = hello + request(c10d::Wait{keys});
    pollfd connected{waiter.fd(), POLLOUT, 0};
    poll(&connected, 1, 5000);
    waiter.offer(bytes);
    pause();
    _exit(0);
  }
  served.until([&] { return served.the_store.parked_count() == 1; });
  REQUIRE(kill(child, SIGKILL) == 0);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  served.until([&] { return served.the_store.parked_count() == 0; });
  CHECK(served.set.connection_count() == 0);
}

TEST_CASE("an agent is handed over with all bytes that it has sent") {
  ServedSet served;
  RawClient agent(served.listening.port);
  served.say(agent, "cppr");
  served.set.serve(std::chrono::steady_clock::now());
  served.say(agent, "un1\nand more");
  served.until([&] { return served.links.size() == 1; });
  CHECK(served.links[0].heard == "cpprun1\nand more");
  CHECK(served.set.connection_count() == 0);
  CHECK(served.admitted.empty());
  CHECK(served.links[0].offer("back") == 4);
  CHECK(served.hear(agent, 4) == "back");
}

TEST_CASE("a client that the host rejects receives nothing and is closed with its reason") {
  ServedSet served;
  served.refusal = "not a member of round 3";
  RawClient client(served.listening.port);
  served.say(client, hello + request(c10d::Add{"n", 1}));
  served.until_closed(client);
  CHECK(served.has_note("closed: not a member of round 3"));
  CHECK(client.heard.empty());
  CHECK(served.the_store.key_count() == 0);
}

TEST_CASE("closing the clients spares those that have not sent anything") {
  ServedSet served;
  RawClient client(served.listening.port);
  RawClient silent(served.listening.port);
  served.ask(client, hello + request(c10d::Add{"n", 1}), 8);
  served.until([&] { return served.set.connection_count() == 2; });
  served.set.close_clients(served.listening.id, "round 1 is over");
  served.until_closed(client);
  CHECK(served.has_note("closed: round 1 is over"));
  CHECK(served.ask(silent, hello + request(c10d::Add{"n", 1}), 8) == number(2));
}

TEST_CASE("a closed port refuses new connections and ends the existing ones") {
  ServedSet served;
  RawClient client(served.listening.port);
  served.ask(client, hello + request(c10d::Add{"n", 1}), 8);
  served.set.stop_listening(served.listening.id, "the job is over");
  served.until_closed(client);
  RawClient late(served.listening.port);
  served.until_closed(late);
  CHECK(served.set.connection_count() == 0);
}

TEST_CASE("ports that are opened and closed leave nothing behind") {
  ServedSet served;
  for (int at = 0; at < 100; ++at) {
    const auto job = served.set.listen(served, {.host = "127.0.0.1"});
    REQUIRE(job.has_value());
    CHECK(job->id.value == 1);
    RawClient client(job->port);
    served.ask(client, hello + request(c10d::Add{"n", 1}), 8);
    served.set.stop_listening(job->id, "the job is over");
    served.until_closed(client);
  }
}

TEST_CASE("a socket with half a greeting is closed after a while, and a silent one may stay") {
  ServedSet served;
  RawClient silent(served.listening.port);
  RawClient half(served.listening.port);
  served.say(half, "cpprun1");
  served.until([&] { return served.set.connection_count() == 2; });
  served.set.serve(std::chrono::steady_clock::now());
  served.set.serve(std::chrono::steady_clock::now() + bounds::first_message_timeout + 1s);
  CHECK(served.set.connection_count() == 1);
  CHECK(served.has_note("closed: incomplete greeting"));
  CHECK(served.ask(silent, hello + request(c10d::Add{"n", 1}), 8) == number(1));
}

TEST_CASE("the wildcard listens on IPv4 and IPv6 on one port, and the port is then in use") {
  ServedSet served({}, "");
  RawClient client(served.listening.port);
  CHECK(served.ask(client, hello + request(c10d::Add{"n", 1}), 8) == number(1));
  CHECK(served.admitted[0].is_loopback());
  const Result<Listening> again =
      served.set.listen(served, {.host = "", .port = served.listening.port});
  REQUIRE_FALSE(again);
  CHECK(again.error().reason.ends_with("Address already in use"));
  CHECK(again.error().reason.find(std::to_string(served.listening.port)) != std::string::npos);
}

TEST_CASE("without descriptors a new client is rejected, others are unaffected, and it recovers") {
  ServedSet served;
  RawClient client(served.listening.port);
  served.ask(client, hello + request(c10d::Add{"n", 1}), 8);
  std::vector<RawClient> newcomers;
  for (int at = 0; at < 3; ++at) newcomers.emplace_back(RawClient::new_socket());
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  // The lowest free number is the limit: no file can be opened.
  FileDescriptor lowest(dup(0));
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(lowest.get());
  lowest.reset();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  for (RawClient& newcomer : newcomers) newcomer.dial(served.listening.port);
  for (RawClient& newcomer : newcomers) served.until_closed(newcomer);
  CHECK(served.ask(client, request(c10d::Add{"n", 1}), 8) == number(2));
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(served.has_note("refused: Too many open files"));
  RawClient later(served.listening.port);
  CHECK(served.ask(later, hello + request(c10d::Add{"n", 1}), 8) == number(3));
}

}  // namespace connection_set_test
