// SPDX-License-Identifier: BSD-3-Clause
// The asynchronous client with Asio: coroutines, callbacks, cancellation.
#include <cpprun/asio_store_client.h>
#include <doctest/doctest.h>

#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/as_tuple.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/rendezvous/embed/io/store_api.h"

namespace asio_store_test {

using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;
using namespace store_api_test;
using cpprun::AsioStoreClient;
using cpprun::Expected;

namespace {

AsioStoreClient asio_client(asio::io_context& context, std::uint16_t port) {
  cpprun::StoreClientOptions options;
  options.host = "127.0.0.1";
  options.port = port;
  options.timeout = 20s;
  auto client = AsioStoreClient::open(context.get_executor(), options);
  REQUIRE_MESSAGE(client, client.error());
  return std::move(*client);
}

}  // namespace

TEST_CASE("coroutines share a client, and the context ends with them") {
  const auto server = server_here();
  asio::io_context context;
  auto store = asio_client(context, server.port());
  std::vector<std::string> told;
  const std::vector<std::string> keys{"greeting", "c"};
  asio::co_spawn(
      context,
      [&]() -> asio::awaitable<void> {
        const auto value = co_await store.get("greeting");  // set by the other one
        told.push_back(*value);
        CHECK(*co_await store.add("n", 2) == 2);
        CHECK(*co_await store.compare_set("c", "", "x") == "x");
        CHECK((*co_await store.find("none")).has_value() == false);
        CHECK(co_await store.wait(keys));
        CHECK(co_await store.barrier("b", 1));
        CHECK(*co_await store.delete_key("c"));
        told.push_back("done");
      },
      asio::detached);
  asio::co_spawn(
      context,
      [&]() -> asio::awaitable<void> {
        CHECK(*co_await store.add("first", 1) == 1);
        told.push_back("set");
        CHECK(co_await store.set("greeting", "hello"));
      },
      asio::detached);
  context.run();
  CHECK(told == std::vector<std::string>{"set", "hello", "done"});
}

TEST_CASE("an awaited request can be cancelled, and times out with a code") {
  const auto server = server_here();
  asio::io_context context;
  auto store = asio_client(context, server.port());
  bool is_done = false;
  asio::co_spawn(
      context,
      [&]() -> asio::awaitable<void> {
        asio::steady_timer timer(context, 20ms);
        const auto first = co_await (store.get("never") || timer.async_wait(asio::use_awaitable));
        CHECK(first.index() == 1);
        CHECK((co_await store.get("never", 20ms)).code() == CPPRUN_STORE_TIMEOUT);
        // The client is as good as before.
        CHECK(*co_await store.add("n", 1) == 1);
        is_done = true;
      },
      asio::detached);
  context.run();
  CHECK(is_done);
}

TEST_CASE("a callback gets the result, or the reason why a request cannot begin") {
  const auto server = server_here();
  asio::io_context context;
  auto store = asio_client(context, server.port());
  std::vector<int> codes;
  asio::cancellation_signal signal;
  store.get("never", AsioStoreClient::usual,
            asio::bind_cancellation_slot(signal.slot(), [&](Expected<std::string> value) {
              codes.push_back(value.code());
            }));
  store.set(std::string("a\0b", 3), "", AsioStoreClient::usual, [&](Expected<void> result) {
    codes.push_back(result.code());
    signal.emit(asio::cancellation_type::all);
  });
  CHECK(codes.empty());  // never within the call
  context.run();
  CHECK(codes == std::vector<int>{CPPRUN_STORE_BAD_ARGUMENT, CPPRUN_STORE_INTERRUPTED});
}

TEST_CASE("the end of a client, or of its server, ends what coroutines await") {
  auto server = server_here();
  asio::io_context context;
  std::optional<AsioStoreClient> store = asio_client(context, server.port());
  std::vector<int> codes;
  const auto await_key = [&]() -> asio::awaitable<void> {
    codes.push_back((co_await store->get("never")).code());
  };
  asio::co_spawn(context, await_key, asio::detached);
  asio::co_spawn(
      context,
      [&]() -> asio::awaitable<void> {
        CHECK(co_await store->add("n", 1));
        store.reset();
      },
      asio::detached);
  context.run();
  context.restart();
  store = asio_client(context, server.port());
  asio::co_spawn(context, await_key, asio::detached);
  asio::co_spawn(
      context,
      [&]() -> asio::awaitable<void> {
        CHECK(co_await store->add("n", 1));
        server.stop();
      },
      asio::detached);
  context.run();
  CHECK(codes == std::vector<int>{CPPRUN_STORE_INTERRUPTED, CPPRUN_STORE_CLOSED});
  CHECK(store->broken());
}

TEST_CASE("a coroutine that owns its client ends with its context") {
  const auto server = server_here();
  const auto kept = std::make_shared<int>(0);
  {
    asio::io_context context;
    asio::co_spawn(
        context,
        [&context, kept, port = server.port()]() -> asio::awaitable<void> {
          const auto local = kept;
          auto store = asio_client(context, port);
          CHECK(*co_await store.add("n", 1) == 1);
          context.stop();
          (void)co_await store.get("never");
        },
        asio::detached);
    context.run();
    CHECK(kept.use_count() > 1);
  }
  CHECK(kept.use_count() == 1);
}

TEST_CASE("a forked child that releases a client leaves its parent's in order") {
  const auto server = server_here();
  asio::io_context context;
  std::optional<AsioStoreClient> store = asio_client(context, server.port());
  std::string got;
  store->get("k", AsioStoreClient::usual,
             [&got](const Expected<std::string>& value) { got = value ? *value : value.error(); });
  auto other = client_of(server.port());
  while (local_client(server).figures()->waits == 0) context.poll();
  const int status = status_of_child([&] {
    store.reset();
    return got.empty() ? 0 : 1;
  });
  CHECK(status == 0);
  CHECK(other.set("k", "v"));
  context.run();
  CHECK(got == "v");
}

TEST_CASE("a watch of a store in this process runs in the context until it is cancelled") {
  const auto server = server_here();
  auto local = local_client(server);
  asio::io_context context;
  cpprun::StoreClientOptions options;
  options.server = server.handle();
  auto store = AsioStoreClient::open(context.get_executor(), options);
  REQUIRE(store);
  std::string seen;
  bool is_done = false;
  asio::co_spawn(
      context,
      [&]() -> asio::awaitable<void> {
        asio::steady_timer called(context, asio::steady_timer::time_point::max());
        const auto first =
            co_await (store->watch("w/", [&](int, std::string_view key, std::string_view value) {
              seen = std::string(key) + "=" + std::string(value);
              called.cancel();
            }) || called.async_wait(asio::experimental::as_tuple(asio::use_awaitable)));
        CHECK(first.index() == 1);
        is_done = true;
      },
      asio::detached);
  context.poll();
  CHECK(local.set("w/k", "v"));
  context.run();
  CHECK(seen == "w/k=v");
  CHECK(is_done);
}

}  // namespace asio_store_test
