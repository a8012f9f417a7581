// SPDX-License-Identifier: BSD-3-Clause
// New clients are admitted whatever the connected clients request, and whatever it costs.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "proto/c10d/codec.h"
#include "tests/proto/c10d_golden.h"
#include "tests/rendezvous/store/io/served_set.h"
#include "tests/rendezvous/store/spoken.h"

namespace connection_doors_test {

using namespace cpprun;

namespace {

// A store of many keys, and clients that request the list of them again and again.
struct Crowd {
  explicit Crowd(ServedSet& served) {
    for (int at = 0; at < 50'000; ++at) names.push_back("key" + std::to_string(at));
    std::vector<c10d::KeyValue> entries;
    for (const std::string& name : names) entries.push_back({name, "v"});
    RawClient setter(served.listening.port);
    served.ask(setter, hello + request(c10d::MultiSet{entries}) + request(c10d::Add{"n", 1}), 8);
    const std::string list = request(c10d::ListKeys{});
    for (int at = 0; at < 4; ++at) {
      clients.emplace_back(served.listening.port);
      served.say(clients.back(), hello + list + list + list + list);
    }
  }
  // The number of lists that have arrived completely.
  std::size_t lists_received() {
    std::size_t bytes = 0;
    for (RawClient& client : clients) {
      client.listen_now();
      bytes += client.heard.size();
    }
    return bytes / (names.size() * 8);
  }

  std::vector<std::string> names;
  std::vector<RawClient> clients;
};

}  // namespace

TEST_CASE("an agent and a client connect while others receive long lists") {
  ServedSet served;
  Crowd crowd(served);
  RawClient agent(served.listening.port);
  RawClient modest(served.listening.port);
  agent.offer("cpprun1\n");
  modest.offer(hello + request(c10d::Add{"modest", 1}));
  int turns = 0;
  served.until([&] {
    ++turns;
    modest.listen_now();
    return served.links.size() == 1 && modest.heard.size() == 8;
  });
  CHECK(turns < 20);
  CHECK(crowd.lists_received() < 8);
}

TEST_CASE("an agent connects while a request with very many keys is carried out") {
  ServedSet served({.work_per_turn = 64 * 1024});
  RawClient client(served.listening.port);
  std::vector<std::string> names;
  for (int at = 0; at < 100'000; ++at) names.push_back("key" + std::to_string(at));
  std::vector<c10d::KeyValue> entries;
  for (const std::string& name : names) entries.push_back({name, "v"});
  served.say(client, hello + request(c10d::MultiSet{entries}) + request(c10d::Add{"n", 1}));
  served.until([&] { return served.the_store.key_count() > 0; });
  RawClient agent(served.listening.port);
  agent.offer("cpprun1\n");
  served.until([&] { return served.links.size() == 1; });
  CHECK(served.the_store.key_count() < names.size());
  CHECK(served.hear(client, 8).size() == 8);
}

}  // namespace connection_doors_test
