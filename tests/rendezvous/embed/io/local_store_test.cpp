// SPDX-License-Identifier: BSD-3-Clause
// Clients in the process of their server: requests, watches, iteration, figures and snapshots.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/rendezvous/embed/io/store_api.h"

namespace store_api_test {

using namespace std::chrono_literals;

namespace {

using Change = std::tuple<int, std::string, std::string>;

// What a watch has reported. The last change that a test makes is to the key "end".
class Changes {
 public:
  cpprun::StoreClient::Watcher watcher() {
    return [this](int change, std::string_view key, std::string_view value) {
      seen_.emplace_back(change, key, value);
      if (key == "end") ended_.set_value();
    };
  }
  std::vector<Change> until_end() {
    ended_.get_future().get();
    return seen_;
  }

 private:
  std::vector<Change> seen_;
  std::promise<void> ended_;
};

cpprun::StoreClient with_prefix(const cpprun::StoreServer& server, const std::string& prefix) {
  cpprun::StoreClientOptions options;
  options.server = server.handle();
  options.key_prefix = prefix;
  return client_with(options);
}

std::map<std::string, std::string> all_of(cpprun::StoreClient& client, const std::string& prefix) {
  std::map<std::string, std::string> found;
  CHECK(client.each(prefix, [&](std::string_view key, std::string_view value) {
    CHECK(found.emplace(key, value).second);
  }));
  return found;
}

}  // namespace

TEST_CASE("a client in the server's process can send every request") {
  const auto server = server_here();
  auto client = local_client(server);
  CHECK(client.set("k", "v"));
  CHECK(*client.get("k") == "v");
  CHECK(client.append("k", "w"));
  CHECK(*client.find("k") == std::optional<std::string>("vw"));
  CHECK(*client.find("missing") == std::nullopt);
  CHECK(*client.add("n", 5) == 5);
  CHECK(*client.compare_set("c", "", "first") == "first");
  CHECK(*client.check({"k", "n"}));
  CHECK(client.wait({"k", "n"}));
  CHECK(client.barrier("all", 1));
  CHECK(*client.delete_key("c"));
  CHECK(client.multi_set({{"a", "1"}, {"b", ""}}));
  CHECK(*client.multi_get({"a", "b"}) == std::vector<std::string>{"1", ""});
  CHECK(client.queue_push("q", "first"));
  CHECK(*client.queue_length("q") == 1);
  CHECK(*client.queue_pop("q") == std::optional<std::string>("first"));
  CHECK(client.list_keys()->size() == 5);
  CHECK(client.wait({"never"}, 0ms).code() == CPPRUN_STORE_TIMEOUT);
  CHECK(*client.add("n", 1) == 6);
  const std::string big(12 * 1024 * 1024, 'x');
  CHECK(client.set("big", big));
  CHECK(*client.get("big") == big);
  CHECK(*client_of(server.port()).get("big") == big);
}

TEST_CASE("waits end by keys that clients with and without a connection set") {
  const auto server = server_here();
  auto local = local_client(server);
  auto remote = client_of(server.port());
  auto got = std::async(std::launch::async, [&] { return *local.get("from remote"); });
  CHECK(remote.set("from remote", "1"));
  CHECK(got.get() == "1");
  got = std::async(std::launch::async, [&] { return *remote.get("from local"); });
  auto second = local_client(server);
  CHECK(second.set("from local", "2"));
  CHECK(got.get() == "2");
}

TEST_CASE("a program with its own loop has clients in its process") {
  auto service = cpprun::StoreService::open({});
  REQUIRE(service);
  cpprun::StoreClientOptions options;
  options.service = service->handle();
  auto client = client_with(options);
  CHECK(client.set("k", "v"));
  CHECK(*client.get("k") == "v");
  CHECK(*client.add("n", 2) == 2);
  std::vector<Change> seen;
  CHECK(client.watch("", [&](int change, std::string_view key, std::string_view value) {
    seen.emplace_back(change, key, value);
    CHECK(*client.get("k") == "w");  // a callback may use the store
  }));
  CHECK(client.set("k", "w"));
  CHECK(seen.empty());
  CHECK(service->next_wait_ms() == 0);
  service->serve();
  CHECK(seen == std::vector<Change>{{CPPRUN_STORE_UPDATED, "k", "w"}});
}

TEST_CASE("a watch reports the changes of all clients, in order, by key or by prefix") {
  const auto server = server_here();
  auto remote = client_of(server.port());
  CHECK(*remote.add("job/a", 1) == 1);
  auto watching = local_client(server);
  Changes changes;
  Changes ends;
  CHECK(watching.watch("job/", changes.watcher()));
  CHECK(watching.watch("end", changes.watcher()));
  CHECK(local_client(server).watch("", [](int, auto, auto) { CHECK(false); }));  // gone at once
  CHECK(*remote.add("job/a", 1) == 2);
  CHECK(remote.set("job/b", "x"));
  CHECK(remote.append("job/b", "y"));
  CHECK(remote.set("other", "x"));
  CHECK(remote.multi_set({{"job/c", "1"}, {"job/d", std::string(1000, 'd')}}));
  CHECK(*remote.compare_set("job/c", "1", "2") == "2");
  CHECK(*remote.delete_key("job/b"));
  CHECK_FALSE(*remote.delete_key("job/b"));
  CHECK(remote.set("end", ""));
  CHECK(changes.until_end() ==
        std::vector<Change>{{CPPRUN_STORE_UPDATED, "job/a", "2"},
                            {CPPRUN_STORE_CREATED, "job/b", "x"},
                            {CPPRUN_STORE_UPDATED, "job/b", "xy"},
                            {CPPRUN_STORE_CREATED, "job/c", "1"},
                            {CPPRUN_STORE_CREATED, "job/d", std::string(1000, 'd')},
                            {CPPRUN_STORE_UPDATED, "job/c", "2"},
                            {CPPRUN_STORE_DELETED, "job/b", ""},
                            {CPPRUN_STORE_CREATED, "end", ""}});
}

TEST_CASE("a watcher that is too slow learns that it has lost changes") {
  const auto server = server_here();
  auto watching = local_client(server);
  std::promise<void> blocked;
  std::promise<void> released;
  Changes changes;
  auto inner = changes.watcher();
  CHECK(watching.watch("", [&, is_first = true](int change, auto key, auto value) mutable {
    if (std::exchange(is_first, false)) {
      blocked.set_value();
      released.get_future().get();
    }
    inner(change, key, value);
  }));
  auto client = local_client(server);
  CHECK(client.set("first", ""));
  blocked.get_future().get();
  for (int at = 0; at < 40; ++at) CHECK(client.set("big", std::string(1 << 20, 'x')));
  released.set_value();
  while (client.figures()->clients == 0) {
  }
  // All of them have been delivered when a later one has.
  std::promise<void> later;
  auto second = local_client(server);
  CHECK(second.watch("later", [&](int, auto, auto) { later.set_value(); }));
  CHECK(client.set("later", ""));
  later.get_future().get();
  CHECK(client.set("end", ""));
  const auto seen = changes.until_end();
  CHECK(seen.size() < 40);
  CHECK(std::count(seen.begin(), seen.end(), Change{CPPRUN_STORE_LOST, "", ""}) == 1);
}

TEST_CASE("a serving thread makes callbacks for a bounded time, and then serves") {
  auto service = cpprun::StoreService::open({});
  REQUIRE(service);
  cpprun::StoreClientOptions options;
  options.service = service->handle();
  auto client = client_with(options);
  int calls = 0;
  CHECK(client.watch("again", [&](int, auto, auto) {
    if (++calls < 100) CHECK(client.append("again", "x"));
    CHECK(*client.num_keys() == 1);  // a reply: the requests before it have been decided
  }));
  CHECK(client.append("again", "x"));
  CHECK(*client.num_keys() == 1);
  service->serve();
  CHECK(calls == 1);
  CHECK(service->next_wait_ms() == 0);

  int slow_calls = 0;
  CHECK(client.watch("slow", [&slow_calls](int, auto, auto) {
    ++slow_calls;
    const auto end = std::chrono::steady_clock::now() + 2ms;
    while (std::chrono::steady_clock::now() < end) {
    }
  }));
  while (service->next_wait_ms() == 0) service->serve();
  CHECK(calls == 100);
  for (int at = 0; at < 100; ++at) CHECK(client.append("slow", "x"));
  CHECK(*client.num_keys() == 2);
  service->serve();
  CHECK(slow_calls > 0);
  CHECK(slow_calls < 10);
  while (service->next_wait_ms() == 0) service->serve();
  CHECK(slow_calls == 100);
}

TEST_CASE("a watch that has lost changes learns it once, and later changes reach it again") {
  auto service = cpprun::StoreService::open({});
  REQUIRE(service);
  cpprun::StoreClientOptions options;
  options.service = service->handle();
  auto client = client_with(options);
  std::vector<Change> seen[2];
  for (auto& each : seen) {
    CHECK(client.watch("", [&each](int change, std::string_view key, std::string_view value) {
      each.emplace_back(change, key, value.substr(0, 1));
    }));
  }
  const std::string big(3 << 20, 'x');
  for (int at = 0; at < 100; ++at) CHECK(client.set("big", big));
  CHECK(*client.num_keys() == 1);
  while (service->next_wait_ms() == 0) service->serve();
  CHECK(client.set("end", "e"));
  CHECK(*client.num_keys() == 2);
  while (service->next_wait_ms() == 0) service->serve();
  const Change lost{CPPRUN_STORE_LOST, "", ""};
  for (const auto& each : seen) {
    CHECK(each.size() < 10);
    CHECK(std::count(each.begin(), each.end(), lost) == 1);
    CHECK(each.back() == Change{CPPRUN_STORE_CREATED, "end", "e"});
  }
}

TEST_CASE("changes for a client that has left take no room from others") {
  auto service = cpprun::StoreService::open({});
  REQUIRE(service);
  cpprun::StoreClientOptions options;
  options.service = service->handle();
  auto client = client_with(options);
  std::vector<int> seen;
  CHECK(client.watch("end", [&seen](int change, auto, auto) { seen.push_back(change); }));
  {
    auto leaving = client_with(options);
    CHECK(leaving.watch("", [](int, auto, auto) {}));
    for (int at = 0; at < 20; ++at) CHECK(client.set("big", std::string(1 << 20, 'x')));
    CHECK(*client.num_keys() == 1);
  }
  CHECK(client.set("end", std::string(1 << 20, 'x')));
  CHECK(*client.num_keys() == 2);
  service->serve();
  CHECK(seen == std::vector<int>{CPPRUN_STORE_CREATED});
}

TEST_CASE("no callback comes after its client is gone") {
  const auto server = server_here();
  auto writer = local_client(server);
  for (int at = 0; at < 50; ++at) {
    auto watching = std::make_unique<cpprun::StoreClient>(local_client(server));
    auto calls = std::make_unique<int>(0);
    CHECK(watching->watch("", [&calls](int, auto, auto) { ++*calls; }));
    for (int change = 0; change < 5; ++change) CHECK(*writer.add("n", 1) > 0);
    watching.reset();
    calls.reset();
  }
}

TEST_CASE("a callback may end its own watch, and its client") {
  const auto server = server_here();
  auto writer = client_of(server.port());
  cpprun_store_client_options options{};
  options.size = sizeof options;
  options.server = server.handle();
  struct Watching {
    cpprun_store_client* client = nullptr;
    std::promise<void> ended;
  } watching;
  watching.client = cpprun_store_connect_with(&options);
  REQUIRE(watching.client != nullptr);
  CHECK(cpprun_store_watch(
            watching.client, nullptr,
            [](void* user, int, const char*, size_t, const char*, size_t) {
              auto& its = *static_cast<Watching*>(user);
              cpprun_store_disconnect(its.client);
              its.ended.set_value();  // throws if it is called twice
            },
            &watching) == 0);
  CHECK(writer.set("a", "1"));
  CHECK(writer.set("b", "1"));
  watching.ended.get_future().get();
  CHECK(*writer.add("n", 1) == 1);
}

TEST_CASE("each visits the keys with a prefix") {
  const auto server = server_here();
  auto client = local_client(server);
  CHECK(client.multi_set({{"job/a", "1"}, {"job/b", std::string(100'000, 'b')}, {"x", "2"}}));
  CHECK(with_prefix(server, "").set("elsewhere", "3"));
  CHECK(all_of(client, "job/") ==
        std::map<std::string, std::string>{{"job/a", "1"}, {"job/b", std::string(100'000, 'b')}});
  CHECK(all_of(client, "").size() == 3);
  auto whole = with_prefix(server, "");
  CHECK(all_of(whole, "").count("/x") == 1);
  CHECK(all_of(whole, "").count("elsewhere") == 1);
}

TEST_CASE("figures and waits show who uses a store and what it waits for") {
  const auto server = server_here();
  auto local = local_client(server);
  auto remote = client_of(server.port());
  CHECK(remote.set("k", std::string(10'000, 'v')));
  CHECK(*remote.add("n", 1) == 1);
  auto at_key = std::async(std::launch::async, [&] { return remote.wait({"late"}).error(); });
  auto other = local_client(server);
  auto at_barrier = std::async(std::launch::async, [&] { return other.barrier("b", 2).error(); });
  while (local.figures()->waits < 2) std::this_thread::yield();
  const cpprun_store_figures figures = *local.figures();
  CHECK(figures.clients == 3);
  CHECK(figures.keys == 3);
  CHECK(figures.bytes > 10'000);
  std::map<std::string, std::pair<std::string, bool>> waits;
  CHECK(local.each_wait([&](std::string_view client, std::string_view key, bool is_barrier) {
    waits[std::string(key)] = {std::string(client), is_barrier};
  }));
  REQUIRE(waits.size() == 2);
  CHECK(waits["/late"].first.rfind("127.0.0.1:", 0) == 0);
  CHECK_FALSE(waits["/late"].second);
  CHECK(waits["/b"] == std::pair<std::string, bool>{"this process", true});
  CHECK(local.set("late", "1"));
  CHECK(local.barrier("b", 2));
  CHECK(at_key.get() == "");
  CHECK(at_barrier.get() == "");
}

TEST_CASE("a snapshot restores keys and queues in another store, and ends waits there") {
  const auto first = server_here();
  auto client = local_client(first);
  const std::string bytes("a\0\xFF", 3);
  CHECK(client.multi_set({{"k", bytes}, {"big", std::string(3'000'000, 'x')}}));
  CHECK(client.queue_push("q", "one"));
  CHECK(client.queue_push("q", "two"));
  const std::string snapshot = *client.snapshot();

  const auto second = server_here();
  auto restored = local_client(second);
  auto waiting = client_of(second.port());
  auto value = std::async(std::launch::async, [&] { return *waiting.get("k"); });
  while (restored.figures()->waits == 0) std::this_thread::yield();
  CHECK(restored.set("own", "1"));
  CHECK(restored.restore(snapshot));
  CHECK(value.get() == bytes);
  CHECK(*restored.get("big") == std::string(3'000'000, 'x'));
  CHECK(*restored.queue_pop("q") == std::optional<std::string>("one"));
  CHECK(*restored.queue_pop("q") == std::optional<std::string>("two"));
  CHECK(*restored.get("own") == "1");
  CHECK(*restored.num_keys() == 3);
}

TEST_CASE("a damaged snapshot is rejected, and changes nothing") {
  const auto server = server_here();
  auto client = local_client(server);
  CHECK(client.set("k", "value"));
  const std::string snapshot = *client.snapshot();
  CHECK(*client.delete_key("k"));
  for (const std::string& damaged :
       {std::string(), std::string("hello"), snapshot.substr(0, snapshot.size() - 1),
        snapshot + "\xFF", snapshot + std::string("\x06\x01", 2)}) {
    const auto restored = client.restore(damaged);
    CHECK(restored.code() == CPPRUN_STORE_BAD_ARGUMENT);
    CHECK(restored.error().rfind("this is not a snapshot of a store: ", 0) == 0);
  }
  CHECK(*client.num_keys() == 0);
}

TEST_CASE("a snapshot that is larger than the memory limit is rejected") {
  const auto first = server_here();
  CHECK(local_client(first).set("big", std::string(100'000, 'x')));
  const std::string snapshot = *local_client(first).snapshot();
  cpprun::StoreServerOptions options;
  options.memory_bytes_max = 50'000;
  const auto second = server_here(options);
  CHECK(local_client(second).restore(snapshot).code() == CPPRUN_STORE_CLOSED);
}

TEST_CASE("a client with a connection cannot use what needs the server's process") {
  const auto server = server_here();
  auto client = client_of(server.port());
  for (const auto& [code, error] : {std::pair(client.snapshot().code(), client.snapshot().error()),
                                    std::pair(client.figures().code(), client.figures().error()),
                                    std::pair(client.watch("", [](int, auto, auto) {}).code(),
                                              client.watch("", [](int, auto, auto) {}).error())}) {
    CHECK(code == CPPRUN_STORE_BAD_ARGUMENT);
    CHECK(error.find(": the store of this client is not in this process") != std::string::npos);
  }
}

TEST_CASE("a client in the process of a server that has stopped fails like any other") {
  auto server = server_here();
  auto client = local_client(server);
  CHECK(client.set("k", "v"));
  server.stop();
  CHECK(client.get("k").code() == CPPRUN_STORE_CLOSED);
  CHECK(client.broken());
  CHECK(client.figures().code() == CPPRUN_STORE_CLOSED);
}

}  // namespace store_api_test
