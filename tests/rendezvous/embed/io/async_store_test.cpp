// SPDX-License-Identifier: BSD-3-Clause
// The asynchronous client of the public headers, in loops with poll and with edge-triggered epoll.
#include <cpprun/async_store_client.h>
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/store/io/listener.h"
#include "tests/rendezvous/embed/io/store_api.h"

namespace async_store_test {

using namespace std::chrono_literals;
using namespace store_api_test;
using cpprun::AsyncStoreClient;
using cpprun::Expected;
using cpprun::FileDescriptor;

namespace {

cpprun::StoreClientOptions options_for(std::uint16_t port) {
  cpprun::StoreClientOptions options;
  options.host = "127.0.0.1";
  options.port = port;
  options.timeout = 20s;
  return options;
}
cpprun::StoreClientOptions options_within(const cpprun::StoreServer& server) {
  cpprun::StoreClientOptions options;
  options.server = server.handle();
  options.timeout = 20s;
  return options;
}
AsyncStoreClient async_client(const cpprun::StoreClientOptions& options) {
  auto client = AsyncStoreClient::open(options);
  REQUIRE_MESSAGE(client, client.error());
  return std::move(*client);
}

// A loop with poll(), which is level-triggered.
void run_with_poll(AsyncStoreClient& client, const std::function<bool()>& is_done) {
  while (!is_done()) {
    pollfd ready{client.descriptor(), POLLIN, 0};
    REQUIRE(poll(&ready, 1, 30'000) == 1);
    client.dispatch();
  }
}
// A loop that sees each change of the descriptor once.
void run_with_edges(AsyncStoreClient& client, const std::function<bool()>& is_done) {
  const FileDescriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  REQUIRE(epoll_ctl(epoll.get(), EPOLL_CTL_ADD, client.descriptor(), &event) == 0);
  while (!is_done()) {
    REQUIRE(epoll_wait(epoll.get(), &event, 1, 30'000) == 1);
    client.dispatch();
  }
}
using Loop = void (*)(AsyncStoreClient&, const std::function<bool()>&);

// The result of the only request.
template <class T>
struct Result {
  std::optional<Expected<T>> value;
  AsyncStoreClient::Done<T> take() {
    return [this](Expected<T> given) {
      CHECK_FALSE(value.has_value());
      value = std::move(given);
    };
  }
  Expected<T>& of(AsyncStoreClient& client, Loop loop = run_with_poll) {
    loop(client, [this] { return value.has_value(); });
    return *value;
  }
};

}  // namespace

TEST_CASE("an asynchronous client can make every request, in loops of both kinds") {
  const auto server = server_here();
  for (const Loop loop : {&run_with_poll, &run_with_edges}) {
    for (const bool is_local : {false, true}) {
      CAPTURE(is_local);
      auto client = async_client(is_local ? options_within(server) : options_for(server.port()));
      const std::string prefix = std::to_string(loop == &run_with_poll) + std::to_string(is_local);
      Result<void> set, waited, met;
      Result<std::string> got, swapped;
      Result<std::optional<std::string>> found, missing;
      Result<std::int64_t> sum;
      Result<bool> was_there, was_not_there;
      // All at once: they take effect in this order.
      CHECK(client.set(prefix + "k", std::string("v\0w", 3), set.take()));
      CHECK(client.get(prefix + "k", got.take()));
      CHECK(client.find(prefix + "k", found.take()));
      CHECK(client.find(prefix + "none", missing.take()));
      CHECK(client.add(prefix + "n", 5, sum.take()));
      CHECK(client.compare_set(prefix + "k", std::string("v\0w", 3), "x", swapped.take()));
      CHECK(client.wait({prefix + "k", prefix + "n"}, waited.take()));
      CHECK(client.barrier(prefix + "b", 1, met.take()));
      CHECK(client.delete_key(prefix + "k", was_there.take()));
      CHECK(client.delete_key(prefix + "k", was_not_there.take()));
      CHECK(client.in_progress() == 10);
      loop(client, [&] { return client.in_progress() == 0; });
      CHECK(set.value->has_value());
      CHECK(**got.value == std::string("v\0w", 3));
      CHECK(**found.value == std::string("v\0w", 3));
      CHECK_FALSE((**missing.value).has_value());
      CHECK(**sum.value == 5);
      CHECK(**swapped.value == "x");
      CHECK(waited.value->has_value());
      CHECK(met.value->has_value());
      CHECK(**was_there.value);
      CHECK_FALSE(**was_not_there.value);
    }
  }
}

TEST_CASE("waits of one client delay none of its other requests") {
  const auto server = server_here();
  for (const bool is_local : {false, true}) {
    CAPTURE(is_local);
    auto client = async_client(is_local ? options_within(server) : options_for(server.port()));
    const std::string key = is_local ? "l" : "r";
    std::vector<std::string> got;
    for (int each = 0; each < 20; ++each) {
      CHECK(client.get(key + std::to_string(each),
                       [&got](Expected<std::string> value) { got.push_back(*value); }));
    }
    Result<std::int64_t> sum;
    CHECK(client.add(key, 1, sum.take()));
    CHECK(*sum.of(client) == 1);
    CHECK(got.empty());
    // The client sets the keys itself, for which it waits.
    for (int each = 19; each >= 0; --each) {
      CHECK(client.set(key + std::to_string(each), std::to_string(each), {}));
    }
    run_with_edges(client, [&] { return got.size() == 20; });
  }
}

TEST_CASE("an edge-triggered loop loses nothing when much arrives at once") {
  const auto server = server_here();
  auto client = async_client(options_for(server.port()));
  // More than one dispatch reads.
  const std::string large(24 * 1024 * 1024, 'x');
  Result<std::string> got;
  std::int64_t last = 0;
  CHECK(client.set("large", large, {}));
  CHECK(client.get("large", got.take()));
  for (int each = 0; each < 50'000; ++each) {
    CHECK(client.add("n", 1, [&last](Expected<std::int64_t> sum) { last = *sum; }));
  }
  run_with_edges(client, [&] { return last == 50'000; });
  CHECK(**got.value == large);
}

TEST_CASE("the descriptor of an idle client is not readable") {
  const auto server = server_here();
  for (const bool is_local : {false, true}) {
    CAPTURE(is_local);
    auto client = async_client(is_local ? options_within(server) : options_for(server.port()));
    Result<std::int64_t> sum;
    CHECK(client.get("never" + std::to_string(is_local), {}));
    CHECK(client.add("n", 1, sum.take()));
    (void)sum.of(client);
    // What is left to do ends: the wait is sent, and its connection opened.
    pollfd ready{client.descriptor(), POLLIN, 0};
    auto local = local_client(server);
    while (local.figures()->waits == 0) {
      if (poll(&ready, 1, 0) == 1) client.dispatch();
    }
    client.dispatch();
    CHECK(poll(&ready, 1, 0) == 0);
  }
}

TEST_CASE("a request has its own deadline, also while the client connects") {
  const auto server = server_here();
  auto client = async_client(options_for(server.port()));
  Result<std::string> got;
  CHECK(client.get("never", got.take(), 30ms));
  CHECK(got.of(client, run_with_edges).code() == CPPRUN_STORE_TIMEOUT);
  CHECK(got.value->error() == "wait for /never timed out");
  CHECK_FALSE(client.broken());

  // It listens, and never answers.
  const auto mute = cpprun::open_port("127.0.0.1", 0);
  REQUIRE(mute);
  auto connecting = async_client(options_for(mute->port));
  Result<std::int64_t> sum;
  CHECK(connecting.add("n", 1, sum.take(), 30ms));
  CHECK(sum.of(connecting, run_with_edges).code() == CPPRUN_STORE_TIMEOUT);
  CHECK(sum.value->error() == "no connection to the store yet");
}

TEST_CASE("a client that cannot connect ends all requests with the reason") {
  std::uint16_t port = 0;
  {
    const auto server = server_here();
    port = server.port();
  }
  auto options = options_for(port);
  options.connect_timeout = 60ms;
  auto client = async_client(options);
  Result<std::int64_t> sum;
  CHECK(client.add("n", 1, sum.take()));
  CHECK(sum.of(client).code() == CPPRUN_STORE_REFUSED);
  CHECK(sum.value->error() == "cannot reach a store at 127.0.0.1:" + std::to_string(port) +
                                  " within 60 ms: Connection refused");
  CHECK(client.broken());
  CHECK(client.add("n", 1, sum.take()).code() == CPPRUN_STORE_REFUSED);
}

TEST_CASE("a name is resolved without blocking") {
  const auto server = server_here();
  auto options = options_for(server.port());
  options.host = "localhost";
  auto client = async_client(options);
  Result<std::int64_t> sum;
  CHECK(client.add("n", 1, sum.take()));
  CHECK(*sum.of(client, run_with_edges) == 1);
  options.host = "no-such-name.invalid";
  options.connect_timeout = 50ms;
  auto lost = async_client(options);
  Result<std::int64_t> never;
  CHECK(lost.add("n", 1, never.take()));
  CHECK_FALSE(never.of(lost).has_value());
}

TEST_CASE("a cancelled request ends with a code at the next dispatch") {
  const auto server = server_here();
  for (const bool is_local : {false, true}) {
    auto client = async_client(is_local ? options_within(server) : options_for(server.port()));
    Result<std::string> got;
    const auto id = client.get("never", got.take());
    Result<std::int64_t> sum;
    CHECK(client.add("n", 0, sum.take()));
    (void)sum.of(client);
    CHECK(client.cancel(*id));
    CHECK_FALSE(got.value.has_value());
    CHECK(got.of(client, run_with_edges).code() == CPPRUN_STORE_INTERRUPTED);
    CHECK_FALSE(client.cancel(*id));
    CHECK_FALSE(client.cancel(77));
    // Its connection can be used again.
    Result<std::string> next;
    CHECK(client.get("soon", next.take()));
    CHECK(client.set("soon", "now", {}));
    CHECK(*next.of(client) == "now");
    client.delete_key("soon", {}).value();
    run_with_poll(client, [&] { return client.in_progress() == 0; });
  }
}

TEST_CASE("the end of the server ends all requests, watches too") {
  for (const bool is_local : {false, true}) {
    CAPTURE(is_local);
    auto server = server_here();
    auto client = async_client(is_local ? options_within(server) : options_for(server.port()));
    int ended = 0;
    const auto end = [&ended](const auto& result) {
      CHECK(result.code() == CPPRUN_STORE_CLOSED);
      ++ended;
    };
    CHECK(client.get("never", end));
    CHECK(client.wait({"never"}, end));
    if (is_local) {
      CHECK(client.watch(
          "", [](int, auto, auto) {}, end));
    }
    Result<std::int64_t> sum;
    CHECK(client.add("n", 1, sum.take()));
    (void)sum.of(client);
    server.stop();
    run_with_edges(client, [&] { return client.in_progress() == 0; });
    CHECK(ended == (is_local ? 3 : 2));
    CHECK(client.broken());
    CHECK(client.add("n", 1, {}).code() == CPPRUN_STORE_CLOSED);
  }
}

TEST_CASE("closing calls every callback that is still to come") {
  const auto server = server_here();
  int interrupted = 0;
  {
    auto client = async_client(options_for(server.port()));
    for (int each = 0; each < 3; ++each) {
      CHECK(client.get("never", [&interrupted](const Expected<std::string>& value) {
        interrupted += value.code() == CPPRUN_STORE_INTERRUPTED ? 1 : 0;
      }));
    }
  }
  CHECK(interrupted == 3);
}

TEST_CASE("a callback may destroy its client, make requests, and throw") {
  const auto server = server_here();
  auto client = std::make_unique<AsyncStoreClient>(async_client(options_for(server.port())));
  int called = 0;
  CHECK(client->add("n", 1, [&](const Expected<std::int64_t>&) {
    ++called;
    throw 1;
  }));
  CHECK(client->add("n", 1, [&](const Expected<std::int64_t>& sum) {
    CHECK(*sum == 2);
    CHECK(client->add("n", 1, [&](const Expected<std::int64_t>& next) {
      CHECK(*next == 3);
      CHECK(client->get("never", [&](const Expected<std::string>& value) {
        CHECK(value.code() == CPPRUN_STORE_INTERRUPTED);
        ++called;
      }));
      client.reset();
      ++called;
    }));
  }));
  while (client) {
    pollfd ready{client->descriptor(), POLLIN, 0};
    REQUIRE(poll(&ready, 1, 30'000) == 1);
    client->dispatch();
  }
  CHECK(called == 3);
}

namespace {

// A client of the C interface, which the first failure closes, also within close().
struct ClosedByFailures {
  cpprun_store_async* client = nullptr;
  int failures = 0;
  static void done(void* user, const cpprun_store_reply* reply) {
    auto* const its = static_cast<ClosedByFailures*>(user);
    if (reply->code == 0) return;
    ++its->failures;
    cpprun_store_async_close(its->client);
  }
};

}  // namespace

TEST_CASE("callbacks of the C interface may all close their client") {
  const auto server = server_here();
  cpprun_store_client_options options{};
  options.size = sizeof options;
  options.host = "127.0.0.1";
  options.port = server.port();
  options.connect_timeout_ms = options.timeout_ms = 20'000;
  ClosedByFailures user{cpprun_store_async_open(&options)};
  REQUIRE(user.client != nullptr);
  for (const int timeout_ms : {30, 20'000, 20'000}) {
    CHECK(cpprun_store_async_get(user.client, "never", timeout_ms, &ClosedByFailures::done,
                                 &user) != 0);
  }
  while (user.failures == 0) {
    pollfd ready{cpprun_store_async_descriptor(user.client), POLLIN, 0};
    REQUIRE(poll(&ready, 1, 30'000) == 1);
    cpprun_store_async_dispatch(user.client);
  }
  CHECK(user.failures == 3);
}

TEST_CASE("a callback may assign another client to its own, and those of the old one are called") {
  const auto server = server_here();
  auto client = async_client(options_for(server.port()));
  int failures = 0;
  const auto reconnect = [&](const Expected<std::string>& value) {
    CHECK_FALSE(value);
    ++failures;
    client = async_client(options_for(server.port()));
  };
  CHECK(client.get("never", reconnect, 30ms));
  for (int each = 0; each < 3; ++each) CHECK(client.get("never", reconnect));
  run_with_poll(client, [&] { return failures > 0; });
  CHECK(failures == 4);
  Result<std::int64_t> sum;
  CHECK(client.add("n", 1, sum.take()));
  CHECK(*sum.of(client) == 1);
}

TEST_CASE("a client that was moved from rejects requests") {
  const auto server = server_here();
  auto client = async_client(options_for(server.port()));
  AsyncStoreClient other = std::move(client);
  CHECK(client.get("k", {}).code() == CPPRUN_STORE_BAD_ARGUMENT);
  CHECK(client.watch("k", {}, {}).error() == "the client was moved to another object");
  CHECK(client.in_progress() == 0);
  CHECK(client.broken());
  Result<std::int64_t> sum;
  CHECK(other.add("n", 1, sum.take()));
  CHECK(*sum.of(other) == 1);
}

TEST_CASE("a watcher may destroy its client, and keeps what it has captured until it returns") {
  const auto server = server_here();
  auto client = std::make_unique<AsyncStoreClient>(async_client(options_within(server)));
  const auto kept = std::make_shared<int>(7);
  int seen = 0;
  bool has_ended = false;
  CHECK(client->watch(
      "k",
      [&client, &seen, kept](int, std::string_view, std::string_view) {
        client.reset();
        CHECK(kept.use_count() > 1);
        seen = *kept;
      },
      [&](const Expected<void>&) { has_ended = true; }));
  CHECK(client->set("k", "v", {}));
  while (client) {
    pollfd ready{client->descriptor(), POLLIN, 0};
    REQUIRE(poll(&ready, 1, 30'000) == 1);
    client->dispatch();
  }
  CHECK(seen == 7);
  CHECK(has_ended);
  CHECK(kept.use_count() == 1);
}

TEST_CASE("a watch calls back in the loop, until it is cancelled") {
  const auto server = server_here();
  auto local = local_client(server);
  auto client = async_client(options_within(server));
  std::vector<std::string> seen;
  Result<void> ended;
  const auto here = std::this_thread::get_id();
  const auto id = client.watch(
      "w/",
      [&](int change, std::string_view key, std::string_view value) {
        CHECK(std::this_thread::get_id() == here);
        seen.push_back(std::to_string(change) + std::string(key) + "=" + std::string(value));
      },
      ended.take());
  CHECK(id);
  // From a thread of its own, as any client.
  std::thread([&] {
    CHECK(local.set("w/a", "1"));
    CHECK(local.set("other", "1"));
    CHECK(local.set("w/a", "2"));
    CHECK(local.delete_key("w/a"));
  }).join();
  run_with_edges(client, [&] { return seen.size() == 3; });
  CHECK(seen == std::vector<std::string>{"1w/a=1", "0w/a=2", "2w/a="});
  CHECK(client.cancel(*id));
  CHECK(local.set("w/b", "1"));
  CHECK(ended.of(client).code() == CPPRUN_STORE_INTERRUPTED);
  CHECK(seen.size() == 3);

  auto remote = async_client(options_for(server.port()));
  CHECK(remote.watch("", [](int, auto, auto) {}, {}).error() ==
        "the store of this client is not in this process");
}

TEST_CASE("a watch gets the changes that were made before the end of its store") {
  auto service = cpprun::StoreService::open({});
  REQUIRE(service);
  cpprun::StoreClientOptions options;
  options.service = service->handle();
  auto client = async_client(options);
  int seen = 0;
  int seen_at_end = -1;
  CHECK(client.watch(
      "k", [&](int, std::string_view, std::string_view) { ++seen; },
      [&](const Expected<void>& ended) {
        CHECK(ended.code() == CPPRUN_STORE_CLOSED);
        seen_at_end = seen;
      }));
  {
    auto blocking = client_with(options);
    for (int each = 0; each < 3; ++each) CHECK(blocking.set("k" + std::to_string(each), "v"));
    CHECK(blocking.num_keys());
  }
  service->serve();  // makes the callbacks
  *service = std::move(*cpprun::StoreService::open({}));
  run_with_edges(client, [&] { return seen_at_end >= 0; });
  CHECK(seen_at_end == 3);
}

TEST_CASE("an asynchronous client works with a service in the same loop") {
  auto service = cpprun::StoreService::open({});
  REQUIRE(service);
  cpprun::StoreClientOptions options;
  options.service = service->handle();
  auto client = async_client(options);
  Result<std::string> got;
  CHECK(client.get("k", got.take()));
  std::vector<std::string> seen;
  CHECK(client.watch("k", [&](int, auto key, auto) { seen.emplace_back(key); }, {}));
  bool was_set = false;
  while (!got.value || seen.empty()) {
    pollfd ready[] = {{service->descriptor(), POLLIN, 0}, {client.descriptor(), POLLIN, 0}};
    const int wait = std::exchange(was_set, true) ? service->next_wait_ms() : 0;
    REQUIRE(poll(ready, 2, wait) >= 0);
    if (wait == 0 && !got.value) CHECK(client.set("k", "v", {}));
    service->serve();
    client.dispatch();
  }
  CHECK(**got.value == "v");
}

TEST_CASE(
    "a forked child can only release an asynchronous client, and its parent notices nothing") {
  const auto server = server_here();
  for (const bool is_local : {false, true}) {
    std::optional<AsyncStoreClient> client =
        async_client(is_local ? options_within(server) : options_for(server.port()));
    Result<std::string> got;
    CHECK(client->get("k" + std::to_string(is_local), got.take()));
    Result<std::int64_t> sum;
    CHECK(client->add("n", 0, sum.take()));
    (void)sum.of(*client);
    const int status = status_of_child([&] {
      const auto id = client->add("n", 1, {});
      client->dispatch();
      client.reset();
      return id.code() == CPPRUN_STORE_FORKED && !got.value ? 0 : 1;
    });
    CHECK(status == 0);
    CHECK(client->set("k" + std::to_string(is_local), "v", {}));
    CHECK(*got.of(*client, run_with_edges) == "v");
  }
}

TEST_CASE("invalid arguments of asynchronous requests are rejected at once, with the name") {
  CHECK(cpprun_store_async_open(nullptr) == nullptr);
  CHECK(cpprun_store_async_descriptor(nullptr) == -1);
  CHECK(cpprun_store_async_get(nullptr, "k", -1, nullptr, nullptr) == 0);
  CHECK(std::string(cpprun_store_error()) == "cpprun_store_async_get: client is a null pointer");
  cpprun_store_async_dispatch(nullptr);
  cpprun_store_async_close(nullptr);
  cpprun_store_client_options options{};
  options.size = sizeof options;
  CHECK(cpprun_store_async_open(&options) == nullptr);
  CHECK(std::string(cpprun_store_error()) ==
        "cpprun_store_async_open: the host of the options is a null pointer");
  options.host = "unix:";
  CHECK(cpprun_store_async_open(&options) == nullptr);
  CHECK(cpprun_store_error_code() == CPPRUN_STORE_BAD_ARGUMENT);

  const auto server = server_here();
  auto client = async_client(options_for(server.port()));
  CHECK(client.set(std::string("a\0b", 3), "", {}).code() == CPPRUN_STORE_BAD_ARGUMENT);
  CHECK(client.set(std::string(CPPRUN_STORE_KEY_BYTES_MAX, 'k'), "", {}).code() ==
        CPPRUN_STORE_TOO_LARGE);
  CHECK(client.in_progress() == 0);
}

}  // namespace async_store_test
