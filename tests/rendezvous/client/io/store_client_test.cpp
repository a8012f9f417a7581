// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/client/io/store_client.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "rendezvous/store/io/listener.h"
#include "rendezvous/store/io/store_server.h"

namespace store_client_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

StoreClient client_of(const StoreServer& server) {
  StoreResult<StoreClient> client =
      StoreClient::open({.host = "127.0.0.1", .port = server.port(), .timeout = 10s});
  REQUIRE(client);
  return std::move(*client);
}

}  // namespace

TEST_CASE("a client can send a server every request") {
  StoreServer server({.host = "127.0.0.1"});
  StoreClient client = client_of(server);
  CHECK(client.set("k", "v"));
  CHECK(client.get("k") == Result<std::string>("v"));
  CHECK(client.append("k", "w"));
  CHECK(client.find("k").value() == std::optional<std::string>("vw"));
  CHECK(client.find("missing").value() == std::optional<std::string>());
  CHECK(client.add("n", 5) == 5);
  CHECK(client.add("n", -7) == -2);
  CHECK(client.compare_set("c", "", "first") == Result<std::string>("first"));
  CHECK(client.compare_set("c", "x", "second") == Result<std::string>("first"));
  CHECK(client.check({"k", "n"}) == true);
  CHECK(client.check({"k", "missing"}) == false);
  CHECK(client.wait({"k", "n"}));
  CHECK(client.num_keys() == 3);
  CHECK(client.delete_key("c") == true);
  CHECK(client.delete_key("c") == false);
  CHECK(client.multi_set({{"a", "1"}, {"b", "22"}}));
  CHECK(client.multi_get({"b", "a", "none"}) == std::vector<std::string>{"22", "1", ""});
  CHECK(client.queue_push("q", "one"));
  CHECK(client.queue_length("q") == 1);
  CHECK(client.queue_pop("q").value() == std::optional<std::string>("one"));
  CHECK(client.queue_pop("q").value() == std::optional<std::string>());
  CHECK(client.barrier("all", 1));
  std::vector<std::string> keys = client.list_keys().value();
  std::sort(keys.begin(), keys.end());
  CHECK(keys == std::vector<std::string>{"a", "all", "b", "k", "n"});
}

TEST_CASE("a get waits for the key that another client will set") {
  StoreServer server({.host = "127.0.0.1"});
  StoreClient reader = client_of(server);
  StoreClient writer = client_of(server);
  // The writer sets the key only after the reader's first lookup.
  std::thread other([&] {
    CHECK(writer.get("reader is here"));
    CHECK(writer.set("late", "value"));
  });
  CHECK(reader.set("reader is here", "1"));
  CHECK(reader.get("late") == Result<std::string>("value"));
  other.join();
}

TEST_CASE("a wait that times out names its keys, and the client stays usable") {
  StoreServer server({.host = "127.0.0.1"});
  StoreClient client = client_of(server);
  const StoreResult<void> waited = client.wait({"a", "b"}, 20ms);
  REQUIRE_FALSE(waited);
  CHECK(waited.error().reason == "wait for /a, /b timed out");
  CHECK_FALSE(client.get("a", 20ms));
  CHECK_FALSE(client.barrier("x", 2, 20ms));
  CHECK(client.set("a", "1"));
  CHECK(client.get("a") == Result<std::string>("1"));
}

TEST_CASE("a large value survives a round trip") {
  StoreServer server({.host = "127.0.0.1"});
  StoreClient client = client_of(server);
  const std::string big(12 * 1024 * 1024, 'x');
  CHECK(client.set("big", big));
  CHECK(client.get("big") == Result<std::string>(big));
}

TEST_CASE("many clients in many threads count together") {
  StoreServer server({.host = "127.0.0.1"});
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      StoreResult<StoreClient> client =
          StoreClient::open({.host = "127.0.0.1", .port = server.port()});
      for (int at = 0; at < 500; ++at) {
        if (!client || !client->add("n", 1)) ++failures;
      }
      if (!client || !client->barrier("done", 8)) ++failures;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
  CHECK(client_of(server).add("n", 0) == 4000);
}

TEST_CASE("a server that stops notifies waiting clients at once") {
  auto server = std::make_unique<StoreServer>(StoreServerOptions{.host = "127.0.0.1"});
  StoreClient waiting = client_of(*server);
  StoreClient other = client_of(*server);
  std::thread waiter([&] {
    CHECK(waiting.set("waiting", "1"));
    const StoreResult<void> waited = waiting.wait({"never"}, 60s);
    REQUIRE_FALSE(waited);
    CHECK_FALSE(waited.error().reason.ends_with("timed out"));
    CHECK(waiting.add("n", 1).error() == waited.error());
  });
  CHECK(other.get("waiting"));
  server.reset();
  waiter.join();
}

TEST_CASE("a port without a listener is named in the failure") {
  std::uint16_t port = 0;
  {
    const Result<OpenPort> open = open_port("127.0.0.1", 0);
    REQUIRE(open);
    port = open->port;
  }
  const StoreResult<StoreClient> client =
      StoreClient::open({.host = "127.0.0.1", .port = port, .connect_timeout = 50ms});
  REQUIRE_FALSE(client);
  CHECK(client.error().reason == "cannot reach a store at 127.0.0.1:" + std::to_string(port) +
                                     " within 50 ms: Connection refused");
}

TEST_CASE("a store that starts to listen later is reached") {
  Result<OpenPort> open = open_port("127.0.0.1", 0);
  REQUIRE(open);
  const std::uint16_t port = open->port;
  // A client that connects now gets no answer; then a store takes the port over.
  std::thread client_thread([&] {
    const StoreResult<StoreClient> client =
        StoreClient::open({.host = "127.0.0.1", .port = port, .connect_timeout = 10s});
    CHECK(client.has_value());
  });
  open->sockets.clear();
  StoreServer server({.host = "127.0.0.1", .port = port});
  client_thread.join();
}

TEST_CASE("a server that is not a store is detected") {
  const Result<OpenPort> open = open_port("127.0.0.1", 0);
  REQUIRE(open);
  std::thread impostor([&] {
    pollfd watched{open->sockets[0].get(), POLLIN, 0};
    poll(&watched, 1, 10'000);
    const FileDescriptor peer(accept(open->sockets[0].get(), nullptr, nullptr));
    CHECK(::send(peer.get(), "HTTP/1.1 400", 12, 0) == 12);
    char bytes[64];
    while (::recv(peer.get(), bytes, sizeof bytes, 0) > 0) {
    }
  });
  const StoreResult<StoreClient> client =
      StoreClient::open({.host = "127.0.0.1", .port = open->port, .connect_timeout = 10ms});
  impostor.join();
  REQUIRE_FALSE(client);
  CHECK(client.error().reason.ends_with("the server is not a store"));
}

TEST_CASE("a server cannot use a port that is in use, and says so") {
  StoreServer server({.host = "127.0.0.1"});
  const auto second = StoreServer::open({.host = "127.0.0.1", .port = server.port()});
  REQUIRE_FALSE(second);
  CHECK(second.error().reason ==
        "cannot listen on 127.0.0.1:" + std::to_string(server.port()) + ": Address already in use");
  CHECK_THROWS_AS(StoreServer({.host = "127.0.0.1", .port = server.port()}), std::runtime_error);
}

TEST_CASE("a service works in the caller's own loop") {
  auto service = StoreService::open({.host = "127.0.0.1"});
  REQUIRE(service);
  std::atomic<bool> done = false;
  std::thread user([&] {
    StoreResult<StoreClient> client =
        StoreClient::open({.host = "127.0.0.1", .port = (*service)->port()});
    CHECK(client->add("n", 3) == 3);
    done = true;
  });
  while (!done) {
    pollfd watched{(*service)->descriptor(), POLLIN, 0};
    poll(&watched, 1, 10);
    (*service)->serve();
  }
  user.join();
}

}  // namespace store_client_test
