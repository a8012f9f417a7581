// SPDX-License-Identifier: BSD-3-Clause
// An embedded store with a secret, and its clients.
#include <cpprun/async_store_client.h>
#include <doctest/doctest.h>
#include <poll.h>

#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/rendezvous/embed/io/store_api.h"

namespace secure_store_test {

using namespace std::chrono_literals;
using namespace store_api_test;

namespace {

const std::string digits = "0123456789abcdef0123456789abcdef0123456789abcdef";
const std::string secret = "cpprun1:one:" + digits + "0123456789abcdef";
const std::string other_secret = "cpprun1:one:" + digits + "fedcba9876543210";

cpprun::StoreServer secure_server(cpprun::StoreServerOptions options = {}) {
  options.secret = secret;
  return server_here(options);
}
cpprun::StoreClientOptions options_for(const cpprun::StoreServer& server,
                                       const std::string& its_secret) {
  cpprun::StoreClientOptions options;
  options.host = "127.0.0.1";
  options.port = server.port();
  options.secret = its_secret;
  options.connect_timeout = 0ms;
  options.timeout = 20s;
  return options;
}
cpprun::StoreClient secure_client(const cpprun::StoreServer& server) {
  auto options = options_for(server, secret);
  options.connect_timeout = 20s;
  return client_with(options);
}
std::string refusal_of(const cpprun::StoreClientOptions& options) {
  auto given = options;
  given.connect_timeout = 100ms;
  const auto client = cpprun::StoreClient::open(given);
  CHECK_FALSE(client.has_value());
  CHECK(client.code() == CPPRUN_STORE_REFUSED);
  return client.error();
}

}  // namespace

TEST_CASE("clients with the secret use a store as any other, with values of every size") {
  const auto server = secure_server();
  auto client = secure_client(server);
  auto other = secure_client(server);
  auto local = local_client(server);  // needs no secret
  CHECK(client.set("k", "v"));
  CHECK(*other.get("k") == "v");
  CHECK(*local.get("k") == "v");
  const std::string large(20'000'000, 'x');
  CHECK(client.set("large", large));
  CHECK(*other.get("large") == large);
  CHECK(*client.get("large") == large);
  CHECK(local.figures()->clients == 3);
  // One waits for what another one sets.
  std::thread waiting([&other] { CHECK(*other.get("later") == "now"); });
  while (local.figures()->waits == 0) std::this_thread::yield();
  CHECK(client.set("later", "now"));
  waiting.join();
}

TEST_CASE("clients without the secret are refused, with the reason in the log") {
  std::promise<std::string> logged;
  bool is_logged = false;
  cpprun::StoreServerOptions options;
  options.log = [&](const std::string& line) {
    if (!std::exchange(is_logged, true)) logged.set_value(line);
  };
  const auto server = secure_server(options);
  (void)refusal_of(options_for(server, ""));
  CHECK(logged.get_future().get().find("this store has a secret, and the client uses none") !=
        std::string::npos);
  CHECK(refusal_of(options_for(server, other_secret)).find("secret") != std::string::npos);
  const auto plain = server_here();
  (void)refusal_of(options_for(plain, secret));
  // Others are not disturbed.
  auto client = secure_client(server);
  CHECK(*client.add("n", 1) == 1);
}

TEST_CASE("a secret that is none is rejected, without a word of it") {
  cpprun::StoreServerOptions options;
  options.secret = "cpprun1:one:0123";
  const auto server = cpprun::StoreServer::open(options);
  CHECK(server.code() == CPPRUN_STORE_BAD_ARGUMENT);
  CHECK(server.error().find("secret: ") == 0);
  CHECK(server.error().find("0123") == std::string::npos);
  const auto plain = server_here();
  const auto client = cpprun::StoreClient::open(options_for(plain, "# nothing"));
  CHECK(client.code() == CPPRUN_STORE_BAD_ARGUMENT);
  CHECK(client.error() == "secret: no secret found");
}

TEST_CASE("an asynchronous client uses the secret on every connection") {
  const auto server = secure_server();
  auto options = options_for(server, secret);
  options.connect_timeout = 20s;
  auto client = cpprun::AsyncStoreClient::open(options);
  REQUIRE(client);
  const std::string large(5'000'000, 'x');
  std::optional<std::string> waited, got;
  // The wait has a connection of its own.
  CHECK(client->get("k", [&](cpprun::Expected<std::string> value) { waited = *value; }));
  CHECK(client->set("large", large, {}));
  CHECK(client->get("large", [&](cpprun::Expected<std::string> value) { got = *value; }));
  CHECK(client->add("n", 1, [&](const cpprun::Expected<std::int64_t>& sum) {
    CHECK(*sum == 1);
    CHECK(client->set("k", "v", {}));
  }));
  while (!waited || !got) {
    pollfd ready{client->descriptor(), POLLIN, 0};
    REQUIRE(poll(&ready, 1, 30'000) == 1);
    client->dispatch();
  }
  CHECK(*waited == "v");
  CHECK(*got == large);
}

TEST_CASE("clients with the secret count, are admitted, and take their leases with them") {
  cpprun::StoreServerOptions options;
  options.clients_max = 1;
  options.namespaces.push_back({.prefix = "/alive/", .ends_with_client = true});
  std::vector<std::string> asked;
  options.admit = [&asked](const std::string& client) {
    asked.push_back(client);
    return true;
  };
  const auto server = secure_server(options);
  auto local = local_client(server);
  std::promise<void> deleted;
  CHECK(local.watch("alive/", [&deleted](int change, std::string_view, std::string_view) {
    if (change == CPPRUN_STORE_DELETED) deleted.set_value();
  }));
  {
    auto client = secure_client(server);
    CHECK(client.set("alive/a", "1"));
    CHECK(*client.get("alive/a") == "1");
    (void)refusal_of(options_for(server, secret));
  }
  deleted.get_future().wait();
  CHECK(asked.size() == 1);
  CHECK(asked[0].starts_with("127.0.0.1:"));
}

TEST_CASE("a server with a secret that stops or drains notices its clients, and they notice it") {
  auto server = secure_server();
  std::optional<cpprun::StoreClient> client = secure_client(server);
  CHECK(*client->add("n", 1) == 1);
  CHECK(server.drain(10ms).code() == CPPRUN_STORE_TIMEOUT);
  client.reset();
  CHECK(server.drain(20s));

  auto next = secure_server();
  client = secure_client(next);
  auto local = local_client(next);
  std::thread waiting([&client] { CHECK(client->get("never").code() == CPPRUN_STORE_CLOSED); });
  while (local.figures()->waits == 0) std::this_thread::yield();
  next.stop();
  waiting.join();
}

TEST_CASE("a forked child with a copy of a secure store does not disturb its parent") {
  std::optional<cpprun::StoreServer> server = secure_server();
  auto client = secure_client(*server);
  CHECK(*client.add("n", 1) == 1);
  CHECK(status_of_child([&server] {
          server.reset();
          return 0;
        }) == 0);
  CHECK(*client.add("n", 1) == 2);
}

}  // namespace secure_store_test
