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

#include "proto/clock.h"
#include "rendezvous/client/bounds.h"
#include "rendezvous/client/io/store_cipher.h"
#include "rendezvous/client/store_error.h"

namespace cpprun {

class LocalStore;
class StoreTransport;

struct StoreClientOptions {
  std::string host{};  // name, address, or "unix:PATH"
  std::uint16_t port = 0;
  // How long to try to connect. The store may not be listening yet.
  Duration connect_timeout = bounds::store_client_connect_timeout;
  // The default timeout of a request.
  Duration timeout = bounds::store_client_timeout;
  // Prefix of every key. PyTorch's clients use "/", so with it keys are shared with them.
  std::string key_prefix = "/";
  MakeCipher make_cipher{};  // null: without TLS
};

// A blocking client of a store (this program's or PyTorch's, 2.2 and later), for tools and tests.
//
//   auto client = cpprun::StoreClient::open({.host = "node1", .port = 29400});
//   if (!client) return report_error(client.error().reason);
//   client->set("greeting", "hello");
//
// Every call ends within its timeout, which covers all that the call has to wait for. A call that
// timed out may take effect later; the client stays usable. A failed call returns the reason as a
// code and a clause. After a failure of the connection every further call fails with the same
// reason. Threads may share a client: their calls wait for each other, within
// their timeouts. Protocol: docs/protocol.md §1, dialect D.
class StoreClient {
 public:
  // Retries until connect_timeout, because the store may not be listening yet.
  static StoreResult<StoreClient> open(const StoreClientOptions& options);
  // The same over a connection that exists.
  static StoreClient over(std::unique_ptr<StoreTransport> transport,
                          const StoreClientOptions& options);
  ~StoreClient();
  StoreClient(StoreClient&&) noexcept;
  StoreClient& operator=(StoreClient&&) noexcept;

  // Written at once. The store does not reply to these, so a failure shows at the next call.
  StoreResult<void> set(std::string_view key, std::string_view value);
  StoreResult<void> append(std::string_view key, std::string_view data);
  StoreResult<void> multi_set(const std::vector<std::pair<std::string, std::string>>& entries);
  StoreResult<void> queue_push(std::string_view key, std::string_view value);

  // Waits until the key exists, then returns its value.
  StoreResult<std::string> get(std::string_view key,
                               std::optional<Duration> timeout = std::nullopt);
  // The current value, or nothing.
  StoreResult<std::optional<std::string>> find(std::string_view key);
  StoreResult<std::int64_t> add(std::string_view key, std::int64_t delta);
  StoreResult<std::string> compare_set(std::string_view key, std::string_view expected,
                                       std::string_view desired);
  StoreResult<bool> check(const std::vector<std::string>& keys);
  StoreResult<void> wait(const std::vector<std::string>& keys,
                         std::optional<Duration> timeout = std::nullopt);
  StoreResult<void> barrier(std::string_view key, std::int64_t world_size,
                            std::optional<Duration> timeout = std::nullopt);
  StoreResult<bool> delete_key(std::string_view key);
  StoreResult<std::int64_t> num_keys();
  StoreResult<std::vector<std::string>> multi_get(const std::vector<std::string>& keys);
  StoreResult<std::optional<std::string>> queue_pop(std::string_view key);
  StoreResult<std::int64_t> queue_length(std::string_view key);
  StoreResult<std::vector<std::string>> list_keys();

  // Fails with `bad_argument` if the store is not in this process.
  StoreResult<LocalStore*> local();

  // Every further call will fail.
  bool is_broken() const;
  // Ends the connection: calls in progress in other threads, and all later ones, fail with
  // `interrupted`. May be called from a signal handler, unless the store is in this process.
  void interrupt() noexcept;

 private:
  class Connection;
  explicit StoreClient(std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
};

}  // namespace cpprun
