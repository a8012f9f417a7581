// SPDX-License-Identifier: BSD-3-Clause
// Namespaces and leases of an embedded store, for clients in this process and elsewhere.
#include <doctest/doctest.h>
#include <poll.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/rendezvous/embed/io/store_api.h"

namespace namespaces_test {

using namespace std::chrono_literals;
using namespace store_api_test;

namespace {

cpprun::StoreServer server_with(cpprun::StoreNamespace space) {
  cpprun::StoreServerOptions options;
  options.namespaces.push_back(std::move(space));
  return server_here(options);
}

// Returns when that key is deleted.
class Deletion {
 public:
  Deletion(cpprun::StoreClient& local, const std::string& key) {
    const auto seen = seen_;
    REQUIRE(local.watch(key, [seen](int change, std::string_view, std::string_view) {
      if (change == CPPRUN_STORE_DELETED) seen->set_value();
    }));
  }
  void await() { seen_->get_future().wait(); }

 private:
  std::shared_ptr<std::promise<void>> seen_ = std::make_shared<std::promise<void>>();
};

}  // namespace

TEST_CASE("keys with a lease are gone with the client that has set them, wherever it is") {
  const auto server = server_with({.prefix = "/alive/", .ends_with_client = true});
  auto local = local_client(server);
  for (const bool is_local : {false, true}) {
    CAPTURE(is_local);
    Deletion deletion(local, "alive/a");
    {
      auto client = is_local ? local_client(server) : client_of(server.port());
      CHECK(client.set("alive/a", "1"));
      CHECK(client.add("alive/n", 1));
      CHECK(client.set("stays", "1"));
      CHECK(local.find("alive/a")->has_value());
      CHECK(local.figures()->clients == 2);
    }
    deletion.await();
    CHECK_FALSE(local.find("alive/a")->has_value());
    CHECK(local.find("stays")->has_value());
  }
}

TEST_CASE("a process that dies takes its keys with it") {
  const auto server = server_with({.prefix = "/alive/", .ends_with_client = true});
  auto local = local_client(server);
  Deletion deletion(local, "alive/child");
  const int status = status_of_child([port = server.port()] {
    auto client = cpprun::StoreClient::open({"127.0.0.1", port});
    if (!client || !client->set("alive/child", "1") || !client->get("alive/child")) return 1;
    _exit(0);  // without a word to the server
  });
  CHECK(status == 0);
  deletion.await();
  CHECK_FALSE(local.find("alive/child")->has_value());
}

TEST_CASE("a key with a time ends without its client's help, also in the caller's own loop") {
  const auto server = server_with({.prefix = "/l/", .lease = 30ms});
  auto local = local_client(server);
  Deletion deletion(local, "l/a");
  auto client = client_of(server.port());
  CHECK(client.set("l/a", "1"));
  deletion.await();
  CHECK_FALSE(client.find("l/a")->has_value());
  // A client in this process sets one while the server's thread sleeps.
  Deletion again(local, "l/b");
  CHECK(local.set("l/b", "1"));
  again.await();

  cpprun::StoreServerOptions options;
  options.namespaces.push_back({.prefix = "/l/", .lease = 30ms});
  auto service = cpprun::StoreService::open(options);
  REQUIRE(service);
  cpprun::StoreClientOptions within;
  within.service = service->handle();
  auto own = client_with(within);
  CHECK(own.set("l/a", "1"));
  while (own.find("l/a")->has_value()) {
    CHECK(service->next_wait_ms() >= 0);
    service->serve();
  }
}

TEST_CASE("a client that exceeds a namespace is disconnected with the numbers, and no other") {
  cpprun::StoreServerOptions options;
  std::promise<std::string> logged;
  options.log = [&logged](const std::string& line) { logged.set_value(line); };
  options.namespaces.push_back({.prefix = "/small/", .keys_max = 1});
  const auto server = server_here(options);
  auto other = client_of(server.port());
  auto client = client_of(server.port());
  CHECK(client.set("small/a", "1"));
  CHECK(client.set("small/b", "1"));
  CHECK(client.get("small/b").code() == CPPRUN_STORE_CLOSED);
  CHECK(logged.get_future().get().find(
            "the namespace \"/small/\" would have 2 keys, more than 1") != std::string::npos);
  CHECK(other.set("small/a", "2"));
  CHECK(*other.get("small/a") == "2");
}

TEST_CASE("a snapshot leaves keys with a lease out") {
  const auto server = server_with({.prefix = "/alive/", .ends_with_client = true});
  auto local = local_client(server);
  CHECK(local.set("alive/a", "1"));
  CHECK(local.set("other", "1"));
  const auto snapshot = local.snapshot();
  REQUIRE(snapshot);
  const auto next = server_here();
  auto there = local_client(next);
  CHECK(there.restore(*snapshot));
  CHECK(*there.list_keys() == std::vector<std::string>{"other"});
}

TEST_CASE("a snapshot is not restored where its keys would end with the client, with their names") {
  const auto first = server_here();
  auto there = local_client(first);
  CHECK(there.set("alive/a", "1"));
  CHECK(there.set("other", "1"));
  const auto snapshot = there.snapshot();
  REQUIRE(snapshot);
  const auto server = server_with({.prefix = "/alive/", .ends_with_client = true});
  auto local = local_client(server);
  const auto restored = local.restore(*snapshot);
  CHECK(restored.code() == CPPRUN_STORE_BAD_ARGUMENT);
  CHECK(
      restored.error() ==
      "1 of 2 keys of the snapshot, first \"/alive/a\", belong to a namespace whose keys end with "
      "their client");
  CHECK(*local.num_keys() == 0);  // nothing was changed
}

TEST_CASE("leases end while clients have used up the memory, and take no place of an address") {
  cpprun::StoreServerOptions options;
  options.memory_bytes_max = 2 * 1024 * 1024;
  options.address_clients_max = 1;
  options.host = "unix:/tmp/namespaces_test." + std::to_string(getpid());
  options.namespaces.push_back({.prefix = "/alive/", .ends_with_client = true});
  const auto server = server_here(options);
  cpprun::StoreClientOptions here;
  here.host = options.host;
  auto client = std::make_optional(client_with(here));  // the only one
  const std::string padding(7000, 'p');
  for (int each = 0; client->set("alive/" + std::to_string(each) + padding, "v"); ++each) {
    if (!client->num_keys()) break;  // it was closed, as the memory is full
  }
  client.reset();
  // Its place is free, and its keys go.
  auto next = client_with(here);
  while (*next.num_keys() > 0) std::this_thread::yield();
  CHECK(next.set("other", "v"));
  CHECK(*next.get("other") == "v");
}

TEST_CASE("a lease is renewed by what had arrived before it ended, however late that is read") {
  cpprun::StoreServerOptions options;
  options.namespaces.push_back({.prefix = "/l/", .lease = 50ms});
  auto service = cpprun::StoreService::open(options);
  REQUIRE(service);
  cpprun::StoreClientOptions within;
  within.service = service->handle();
  auto own = client_with(within);
  int deleted = 0;
  CHECK(own.watch("l/", [&deleted](int change, std::string_view, std::string_view) {
    deleted += change == CPPRUN_STORE_DELETED ? 1 : 0;
  }));
  const auto serve_until = [&service](const std::function<bool()>& is_done) {
    while (!is_done()) {
      pollfd ready{service->descriptor(), POLLIN, 0};
      const int wait = service->next_wait_ms();
      REQUIRE(poll(&ready, 1, wait < 0 || wait > 10 ? 10 : wait) >= 0);
      service->serve();
    }
  };
  const auto holds = [&own](const char* key, const char* value) {
    return [&own, key, value] { return own.find(key)->value_or("") == value; };
  };
  auto opening = std::async(std::launch::async, [&] { return client_of(service->port()); });
  serve_until([&] { return opening.wait_for(0s) == std::future_status::ready; });
  auto client = opening.get();
  CHECK(client.set("l/a", "1"));
  serve_until(holds("l/a", "1"));
  // More than one turn reads, and the renewal comes last.
  CHECK(client.set("other", std::string(150 * 1024, 'x')));
  CHECK(client.set("l/a", "2"));
  while (service->next_wait_ms() != 0) poll(nullptr, 0, 1);
  serve_until(holds("l/a", "2"));
  CHECK(deleted == 0);
}

TEST_CASE("invalid namespaces are rejected with their number or name") {
  const auto error_of = [](std::vector<cpprun_store_namespace> spaces) {
    cpprun_store_server_options options{};
    options.size = sizeof options;
    options.namespaces = spaces.data();
    options.namespace_count = spaces.size();
    CHECK(cpprun_store_serve_with(&options) == nullptr);
    CHECK(cpprun_store_error_code() == CPPRUN_STORE_BAD_ARGUMENT);
    return std::string(cpprun_store_error());
  };
  const auto space = [](const char* prefix) {
    cpprun_store_namespace given{};
    given.size = sizeof given;
    given.prefix = prefix;
    return given;
  };
  CHECK(error_of({space("/a/"), space(nullptr)}) ==
        "cpprun_store_serve_with: namespaces[1].prefix is a null pointer");
  CHECK(error_of({space("/a/"), space("/a/b")}) ==
        "the namespace \"/a/b\" is within another one, \"/a/\"");
  auto negative = space("/a/");
  negative.lease_ms = -1;
  CHECK(error_of({negative}) == "cpprun_store_serve_with: namespaces[0].lease_ms is negative");
  auto without_size = space("/a/");
  without_size.size = 0;
  CHECK(error_of({without_size}).find("set it to sizeof(cpprun_store_namespace)") !=
        std::string::npos);
}

}  // namespace namespaces_test
