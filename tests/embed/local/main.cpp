// SPDX-License-Identifier: BSD-3-Clause
// A program that watches its own store, and shows who uses it.
#include <cpprun/store_client.h>
#include <cpprun/store_server.h>

#include <cstdio>
#include <future>

int main() {
  const auto server = cpprun::StoreServer::open({});
  if (!server) return std::fprintf(stderr, "%s\n", server.error().c_str()), 1;
  cpprun::StoreClientOptions options;
  options.server = server->handle();
  auto store = cpprun::StoreClient::open(options);
  if (!store) return std::fprintf(stderr, "%s\n", store.error().c_str()), 1;

  std::promise<void> called;
  store->watch("status/", [&called](int, std::string_view key, std::string_view value) {
    std::printf("%s is %s\n", std::string(key).c_str(), std::string(value).c_str());
    called.set_value();
  });
  store->set("status/loading", "done");
  called.get_future().wait();  // callbacks come from the server's thread

  const auto snapshot = store->snapshot();  // for restore(), in this store or another one
  const auto figures = store->figures();
  if (!snapshot || !figures) return 1;
  std::printf("%d keys\n", static_cast<int>(figures->keys));
}
