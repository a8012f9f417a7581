// SPDX-License-Identifier: BSD-3-Clause
// No client is served for long at a time: the work of one turn, the memory that a client may use,
// and that only the client that exceeds a limit is closed.

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cstring>
#include <string>
#include <vector>

#include "proto/c10d/codec.h"
#include "tests/proto/c10d_golden.h"
#include "tests/rendezvous/store/io/served_set.h"
#include "tests/rendezvous/store/spoken.h"

namespace connection_turns_test {

using namespace cpprun;
using namespace std::chrono_literals;
using c10d::golden::bytes_of;

namespace {

constexpr std::size_t mib = 1024 * 1024;

// Turns until this client has received that many bytes.
int turns_until_heard(ServedSet& served, RawClient& client, std::size_t count) {
  int turns = 0;
  served.until([&] {
    ++turns;
    client.listen_now();
    return client.heard.size() >= count;
  });
  return turns;
}

void until_present(ServedSet& served, std::size_t count) {
  served.until([&] { return served.set.connection_count() == count; });
}

}  // namespace

TEST_CASE("thousands of requests in one packet are processed over many turns, and in order") {
  ServedSet served({.work_per_turn = 64 * 1024, .work_per_visit = 16 * 1024});
  RawClient greedy(served.listening.port);
  RawClient modest(served.listening.port);
  served.ask(greedy, hello + request(c10d::Add{"other", 1}), 8);
  served.ask(modest, hello + request(c10d::Add{"other", 1}), 8);
  std::string many;
  for (int at = 0; at < 1500; ++at) many += request(c10d::Add{"n", 1});
  served.say(greedy, many);
  modest.offer(request(c10d::Add{"modest", 1}));
  // The modest client does not wait for all requests of the greedy one.
  std::int64_t decided = 0;
  served.until([&] {
    modest.listen_now();
    greedy.listen_now();
    decided = static_cast<std::int64_t>(greedy.heard.size() / 8);
    return modest.heard.size() == 8;
  });
  CHECK(decided < 1500);
  CHECK(turns_until_heard(served, greedy, 1500 * 8) > 3);
  CHECK(greedy.heard.substr(1499 * 8, 8) == number(1500));
}

TEST_CASE("one turn has a limited amount of work, however many clients have sent requests") {
  ServedSet served({.work_per_turn = 256 * 1024});
  std::vector<RawClient> clients;
  for (int at = 0; at < 20; ++at) {
    clients.emplace_back(served.listening.port);
    served.ask(clients.back(), hello + request(c10d::Add{"n", 1}), 8);
  }
  const std::string set = request(c10d::Set{"k", std::string(60'000, 'v')});
  for (RawClient& client : clients) client.offer(set + request(c10d::Add{"n", 1}));
  CHECK(served.set.serve(std::chrono::steady_clock::now()));
  int answered = 0;
  for (RawClient& client : clients) {
    client.listen_now();
    answered += client.heard.size() == 8 ? 1 : 0;
  }
  CHECK(answered < 10);
  for (RawClient& client : clients) CHECK(served.hear(client, 8).size() == 8);
}

TEST_CASE("a large value requested by many is sent from one buffer, a slice in each turn") {
  ServedSet served;
  RawClient setter(served.listening.port);
  const std::string large(64 * mib, 'v');
  served.say(setter, hello + request(c10d::Set{"k", large}));
  CHECK(served.ask(setter, request(c10d::Add{"n", 1}), 8) == number(1));
  CHECK(served.set.accounting().bytes_held() < 66 * mib);
  std::vector<RawClient> lazy;
  const std::vector<c10d::Bytes> twelve(12, "k");
  for (int at = 0; at < 8; ++at) {
    lazy.emplace_back(served.listening.port);
    served.say(lazy.back(), hello + request(c10d::MultiGet{twelve}));
  }
  served.until([&] {
    lazy.back().listen_now();
    return !lazy.back().heard.empty();
  });
  CHECK(served.set.accounting().bytes_held() < 70 * mib);
  CHECK(served.ask(setter, request(c10d::Add{"n", 1}), 8) == number(2));
  // A reply has the value as of its request.
  served.say(setter, request(c10d::Set{"k", "short"}));
  std::size_t heard = 0;
  served.until([&] {
    lazy[0].listen_now();
    heard += lazy[0].heard.size();
    lazy[0].heard.clear();
    return heard >= 12 * (8 + large.size());
  });
  CHECK(heard == 12 * (8 + large.size()));
}

TEST_CASE("a large value stays in the buffer in which it arrived") {
  ServedSet served;
  RawClient client(served.listening.port);
  std::string large(20 * mib, 'x');
  for (std::size_t at = 0; at < large.size(); at += 4096) large[at] = static_cast<char>(at >> 12);
  // Other requests before and after it in the same packets.
  served.say(client, hello + request(c10d::Add{"n", 1}) + request(c10d::Set{"k", large}) +
                         request(c10d::Add{"n", 1}) + request(c10d::Append{"k", large}) +
                         request(c10d::Append{"k", "end"}) + request(c10d::Add{"n", 1}));
  CHECK(served.hear(client, 24) == number(1) + number(2) + number(3));
  CHECK(served.set.accounting().bytes_held() < 42 * mib);
  const std::string got =
      served.ask(client, request(c10d::Get{"k"}), 8 + 2 * large.size() + 3).substr(8);
  CHECK(got == large + large + "end");
  served.say(client, request(c10d::DeleteKey{"k"}));
  served.until([&] { return served.set.accounting().bytes_held() < mib; });
}

TEST_CASE("tens of thousands of keys are listed over several turns, each once") {
  ServedSet served;
  RawClient client(served.listening.port);
  constexpr int count = 20'000;
  std::vector<std::string> names;
  for (int at = 0; at < count; ++at) names.push_back("key" + std::to_string(at));
  std::vector<c10d::KeyValue> entries;
  for (const std::string& name : names) entries.push_back({name, "v"});
  served.say(client, hello + request(c10d::MultiSet{entries}));
  served.say(client, request(c10d::ListKeys{}) + request(c10d::Add{"n", 1}));
  std::size_t bytes = 8;
  for (const std::string& name : names) bytes += 8 + name.size();
  const std::string heard = served.hear(client, bytes + 8);
  CHECK(heard.substr(0, 8) == number(count));
  CHECK(heard.substr(bytes) == number(1));
  std::size_t at = 8;
  std::vector<std::string> listed;
  while (at < bytes) {
    std::uint64_t length = 0;
    std::memcpy(&length, heard.data() + at, sizeof length);
    listed.push_back(heard.substr(at + 8, length));
    at += 8 + length;
  }
  std::ranges::sort(listed);
  std::ranges::sort(names);
  CHECK(listed == names);
}

TEST_CASE("only a connection that exceeds the memory limit is closed, with the figures") {
  ServedSet served({.memory = {.bytes_max = 16 * mib}});
  RawClient modest(served.listening.port);
  served.ask(modest, hello + request(c10d::Add{"n", 1}), 8);
  RawClient greedy(served.listening.port);
  const std::string large = hello + request(c10d::Set{"k", std::string(20 * mib, 'v')});
  std::string_view rest = large;
  served.until([&] {
    rest.remove_prefix(greedy.offer(rest));
    greedy.listen_now();
    return greedy.was_closed;
  });
  REQUIRE(served.notes.size() == 1);
  CAPTURE(served.notes[0].text);
  // How close to the limit depends on how much the kernel delivers at once.
  const std::string_view line = served.notes[0].text;
  const auto held = [line](std::string_view figure) {
    return line.starts_with("closed: all clients together hold " + std::string(figure));
  };
  CHECK((held("13.") || held("14.0 ")));
  CHECK(served.notes[0].text.ends_with(" of at most 14.0 MiB"));
  CHECK_FALSE(served.notes[0].ordinary);
  CHECK(served.ask(modest, request(c10d::Add{"n", 1}), 8) == number(2));
  served.until([&] { return served.set.accounting().bytes_held() < mib; });
}

TEST_CASE(
    "the number of connections per address is limited, and another is rejected with a reason") {
  ServedSet served({.memory = {.address_connections_max = 2}});
  RawClient first(served.listening.port);
  RawClient second(served.listening.port);
  CHECK(served.ask(first, hello + request(c10d::Add{"m", 1}), 8) == number(1));
  CHECK(served.ask(second, hello + request(c10d::Add{"m", 1}), 8) == number(2));
  RawClient third(served.listening.port);
  served.until_closed(third);
  CHECK(served.has_note("refused: its address has reached its limit of 2 connections"));
  first.close();
  until_present(served, 1);
  RawClient fourth(served.listening.port);
  CHECK(served.ask(fourth, hello + request(c10d::Add{"n", 1}), 8) == number(1));
}

TEST_CASE("a silent connection makes room when its address is at the limit") {
  ServedSet served({.memory = {.address_connections_max = 2}});
  RawClient speaks(served.listening.port);
  CHECK(served.ask(speaks, hello + request(c10d::Add{"n", 1}), 8) == number(1));
  RawClient silent(served.listening.port);
  until_present(served, 2);
  RawClient next(served.listening.port);
  served.until_closed(silent);
  CHECK(served.has_note("closed: idle, and its address needs the connection for another client"));
  CHECK(served.ask(next, hello + request(c10d::Add{"n", 1}), 8) == number(2));
  CHECK(served.ask(speaks, request(c10d::Add{"n", 1}), 8) == number(3));
}

TEST_CASE("a cleared store is freed over several turns, and is usable meanwhile") {
  ServedSet served;
  RawClient client(served.listening.port);
  std::vector<std::string> names;
  for (int at = 0; at < 50'000; ++at) names.push_back("key" + std::to_string(at));
  std::vector<c10d::KeyValue> entries;
  for (const std::string& name : names) entries.push_back({name, "v"});
  served.say(client, hello + request(c10d::MultiSet{entries}) + request(c10d::Add{"n", 1}));
  served.hear(client, 8);
  const std::uint64_t full = served.set.accounting().bytes_held();
  served.the_store.clear();
  CHECK(served.the_store.key_count() == 0);
  CHECK(served.set.accounting().bytes_held() == full);
  CHECK(served.set.serve(std::chrono::steady_clock::now()));
  CHECK(served.set.accounting().bytes_held() < full);
  CHECK(served.ask(client, request(c10d::Add{"n", 1}), 8) == number(1));
  served.until([&] { return served.set.accounting().bytes_held() < 1000; });
}

TEST_CASE("a request with very many keys takes many turns and is atomic for other clients") {
  ServedSet served;
  RawClient greedy(served.listening.port);
  RawClient other(served.listening.port);
  served.ask(other, hello + request(c10d::Add{"n", 1}), 8);
  constexpr int count = 100'000;
  std::vector<std::string> names;
  for (int at = 0; at < count; ++at) names.push_back("key" + std::to_string(at));
  std::vector<c10d::Bytes> keys(names.begin(), names.end());
  std::vector<c10d::KeyValue> entries;
  for (const std::string& name : names) entries.push_back({name, "v"});
  served.say(greedy, hello + request(c10d::Wait{keys}));
  served.until([&] { return served.the_store.parked_count() == 1; });
  RawClient setter(served.listening.port);
  served.say(setter, hello + request(c10d::MultiSet{entries}) + request(c10d::MultiGet{keys}) +
                         request(c10d::Check{keys}));
  int turns = 0;
  served.until([&] {
    // The other client polls the number of keys: it is either the old one or the new one.
    other.offer(request(c10d::GetNumKeys{}));
    ++turns;
    setter.listen_now();
    return setter.heard.size() == count * 9 + 1;
  });
  CHECK(turns > 3 * count / 8192);
  CHECK(setter.heard.substr((count - 1) * 9) ==
        "\x01" + std::string(7, '\0') + "v" + std::string(1, '\0'));
  CHECK(served.hear(greedy, 1) == std::string(1, '\0'));
  other.listen_now();
  for (std::size_t at = 0; at + 8 <= other.heard.size(); at += 8) {
    const std::string seen = other.heard.substr(at, 8);
    CHECK((seen == number(1) || seen == number(count + 1)));
  }
}

TEST_CASE("hundreds of clients are closed a few in each turn, and their requests are ignored") {
  ServedSet served;
  std::vector<RawClient> clients;
  for (int at = 0; at < 200; ++at) {
    clients.emplace_back(served.listening.port);
    served.ask(clients.back(), hello + request(c10d::Add{"n", 1}), 8);
  }
  served.set.close_clients(served.listening.id, "round 1 is over");
  for (RawClient& client : clients) client.offer(request(c10d::Add{"late", 1}));
  RawClient next(served.listening.port);
  CHECK(served.ask(next, hello + request(c10d::Add{"n", 1}), 8) == number(201));
  CHECK(served.set.connection_count() > 100);
  until_present(served, 1);
  CHECK_FALSE(served.the_store.has_all(std::vector<c10d::Bytes>{"late"}));
  CHECK(std::ranges::count(served.notes, "closed: round 1 is over", &Note::text) == 200);
}

TEST_CASE("the connections of a closed port are closed a few in each turn, with one log line") {
  ServedSet served;
  const auto job = served.set.listen(served, {.host = "127.0.0.1"});
  std::vector<RawClient> clients;
  for (int at = 0; at < 200; ++at) {
    clients.emplace_back(job->port);
    served.ask(clients.back(), hello + request(c10d::Add{"n", 1}), 8);
  }
  served.set.stop_listening(job->id, "the job is over");
  CHECK(served.set.connection_count() == 200);
  // The driver of the set is notified, although no client has sent anything.
  pollfd watched{served.set.descriptor(), POLLIN, 0};
  CHECK(poll(&watched, 1, 0) == 1);
  CHECK(served.set.serve(std::chrono::steady_clock::now()));
  CHECK(served.set.connection_count() > 100);
  // The port number is not reused while a connection remains.
  CHECK(served.set.listen(served, {.host = "127.0.0.1"})->id.value == 2);
  until_present(served, 0);
  CHECK(served.notes.size() == 1);
  CHECK(served.has_note("closed 200 connections: the job is over"));
  CHECK(poll(&watched, 1, 0) == 0);
  CHECK(served.set.listen(served, {.host = "127.0.0.1"})->id.value == 1);
}

TEST_CASE("clients that leave together are removed a few in each turn") {
  ServedSet served;
  std::vector<RawClient> clients;
  for (int at = 0; at < 200; ++at) {
    clients.emplace_back(served.listening.port);
    served.ask(clients.back(), hello + request(c10d::Add{"n", 1}), 8);
  }
  clients.clear();
  CHECK(served.set.serve(std::chrono::steady_clock::now()));
  CHECK(served.set.connection_count() > 100);
  until_present(served, 0);
}

TEST_CASE("a crowd is accepted a few in each turn") {
  ServedSet served;
  std::vector<RawClient> clients;
  for (int at = 0; at < 200; ++at) clients.emplace_back(served.listening.port);
  served.set.serve(std::chrono::steady_clock::now());
  CHECK(served.set.connection_count() < 100);
  until_present(served, 200);
}

TEST_CASE(
    "a wait for very many keys is cancelled over many turns, and then the request is answered") {
  ServedSet served;
  RawClient greedy(served.listening.port);
  RawClient other(served.listening.port);
  constexpr int count = 100'000;
  std::vector<std::string> names;
  for (int at = 0; at < count; ++at) names.push_back("key" + std::to_string(at));
  const std::vector<c10d::Bytes> keys(names.begin(), names.end());
  served.say(greedy, hello + request(c10d::Wait{keys}));
  served.until([&] { return served.the_store.parked_count() == 1; });
  served.ask(other, hello + request(c10d::Add{"n", 1}), 8);
  greedy.offer(request(c10d::Add{"n", 1}));
  int turns = 0;
  while (greedy.heard.empty() && turns < 10'000) {
    served.set.serve(std::chrono::steady_clock::now());
    ++turns;
    greedy.listen_now();
  }
  CHECK(greedy.heard == number(2));
  CHECK(turns > count / 4096);
  // The same if it leaves instead.
  served.say(greedy, request(c10d::Wait{keys}));
  served.until([&] { return served.the_store.parked_count() == 1; });
  greedy.close();
  turns = 0;
  served.until([&] {
    ++turns;
    return served.the_store.parked_count() == 0;
  });
  CHECK(turns > count / 4096);
  served.until([&] { return served.set.accounting().bytes_held() < 1000; });
}

TEST_CASE(
    "a reply that contains a large value a hundred thousand times is rejected before it is built") {
  ServedSet served;
  RawClient client(served.listening.port);
  std::string appends = hello;
  const std::string piece(100'000, 'v');
  for (int at = 0; at < 600; ++at) appends += request(c10d::Append{"v", piece});
  served.say(client, appends);
  const std::vector<c10d::Bytes> names(100'000, "v");
  served.say(client, request(c10d::MultiGet{names}));
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  served.until_closed(client);
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  CHECK(served.has_note("closed: asked for a reply of more than 1073741824 bytes"));
  CHECK(after.ru_maxrss - before.ru_maxrss < 64 * 1024);
}

}  // namespace connection_turns_test
