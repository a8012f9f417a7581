// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A blocking client of a store (ours or PyTorch's 2.2 and later), for tools and tests.
//
//   auto client = cpprun::StoreClient::open({.host = "node1", .port = 29400});
//   if (!client) return complain(client.error().reason);
//   client->set("greeting", "hello");
//
// Every call ends within its timeout. A failed call says why as a clause; after a failed connection
// every further call fails with the same reason. Not for several threads at once.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/client/io/async_store_client.h"

namespace cpprun {

class StoreClient {
 public:
  // Tries until connect_timeout: the store may not be listening yet.
  static Result<StoreClient> open(const StoreClientOptions& options);

  // Written at once, but not answered by the store: a failure shows at the next call.
  Result<void> set(std::string_view key, std::string_view value);
  Result<void> append(std::string_view key, std::string_view data);
  Result<void> multi_set(const std::vector<std::pair<std::string, std::string>>& entries);
  Result<void> queue_push(std::string_view key, std::string_view value);

  // The value, as soon as there is one.
  Result<std::string> get(std::string_view key, std::optional<Duration> timeout = std::nullopt);
  // The value as it is now, or nothing.
  Result<std::optional<std::string>> find(std::string_view key);
  Result<std::int64_t> add(std::string_view key, std::int64_t delta);
  Result<std::string> compare_set(std::string_view key, std::string_view expected,
                                  std::string_view desired);
  Result<bool> check(const std::vector<std::string>& keys);
  Result<void> wait(const std::vector<std::string>& keys,
                    std::optional<Duration> timeout = std::nullopt);
  Result<void> barrier(std::string_view key, std::int64_t world_size,
                       std::optional<Duration> timeout = std::nullopt);
  Result<bool> delete_key(std::string_view key);
  Result<std::int64_t> num_keys();
  Result<std::vector<std::string>> multi_get(const std::vector<std::string>& keys);
  Result<std::optional<std::string>> queue_pop(std::string_view key);
  Result<std::int64_t> queue_length(std::string_view key);
  Result<std::vector<std::string>> list_keys();

  // Why the connection is of no use any more; empty while it is.
  const std::string& broken() const;

 private:
  explicit StoreClient(std::unique_ptr<AsyncStoreClient> client, Duration timeout);

  // Lets the client work until that slot is filled.
  template <class T>
  Result<T> await(std::optional<Result<T>>& slot);
  Result<void> written();

  std::unique_ptr<AsyncStoreClient> client_;
  Duration timeout_;
};

}  // namespace cpprun
