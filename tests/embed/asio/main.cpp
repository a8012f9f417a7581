// SPDX-License-Identifier: BSD-3-Clause
// Two coroutines share one client: one waits for what the other one sets.
#include <cpprun/asio_store_client.h>
#include <cpprun/store_server.h>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <cstdio>

asio::awaitable<void> wait_for_greeting(cpprun::AsioStoreClient& store) {
  const auto greeting = co_await store.get("greeting", std::chrono::seconds(5));
  std::printf("%s\n", greeting ? greeting->c_str() : greeting.error().c_str());
}

asio::awaitable<void> greet(cpprun::AsioStoreClient& store) {
  const auto visitors = co_await store.add("visitors", 1);
  co_await store.set("greeting", "hello, visitor " + std::to_string(*visitors));
}

int main() {
  const auto server = cpprun::StoreServer::open({});
  if (!server) return std::fprintf(stderr, "%s\n", server.error().c_str()), 1;
  asio::io_context context;
  auto store =
      cpprun::AsioStoreClient::open(context.get_executor(), {"127.0.0.1", server->port()});
  if (!store) return std::fprintf(stderr, "%s\n", store.error().c_str()), 1;
  asio::co_spawn(context, wait_for_greeting(*store), asio::detached);
  asio::co_spawn(context, greet(*store), asio::detached);
  context.run();
}
