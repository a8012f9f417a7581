// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A client of a store.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/bounds.h"
#include "proto/clock.h"
#include "proto/result.h"

namespace cpprun {

struct StoreClientOptions {
  std::string host{};  // name or address
  std::uint16_t port = 0;
  // How long to try to connect. The store may not be listening yet.
  Duration connect_timeout = bounds::store_client_connect_timeout;
  // The default timeout of a request.
  Duration timeout = bounds::store_client_timeout;
  // Prefix of every key. PyTorch's clients use "/", so with it keys are shared with them.
  std::string key_prefix = "/";
};

// A blocking client of a store (this program's or PyTorch's, 2.2 and later), for tools and tests.
//
//   auto client = cpprun::StoreClient::open({.host = "node1", .port = 29400});
//   if (!client) return report_error(client.error().reason);
//   client->set("greeting", "hello");
//
// Every call ends within its timeout. A failed call returns the reason as a clause. After a failure
// of the connection every further call fails with the same reason. Not thread-safe. Protocol:
// docs/protocol.md §1, dialect D.
class StoreClient {
 public:
  // Retries until connect_timeout, because the store may not be listening yet.
  static Result<StoreClient> open(const StoreClientOptions& options);
  ~StoreClient();
  StoreClient(StoreClient&&) noexcept;
  StoreClient& operator=(StoreClient&&) noexcept;

  // Written at once. The store does not reply to these, so a failure shows at the next call.
  Result<void> set(std::string_view key, std::string_view value);
  Result<void> append(std::string_view key, std::string_view data);
  Result<void> multi_set(const std::vector<std::pair<std::string, std::string>>& entries);
  Result<void> queue_push(std::string_view key, std::string_view value);

  // Waits until the key exists, then returns its value.
  Result<std::string> get(std::string_view key, std::optional<Duration> timeout = std::nullopt);
  // The current value, or nothing.
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

  // Why the connection is unusable. Empty while it works.
  const std::string& broken() const;

 private:
  class Connection;
  explicit StoreClient(std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
};

}  // namespace cpprun
