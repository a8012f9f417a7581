// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Clients of a store (this program's or PyTorch's, 2.2 and later): AsyncStoreClient has no thread
// and never blocks after open(). StoreClient blocks.

#include <cstdint>
#include <functional>
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

// A client of a store for programs with their own event loop. It has no thread and never blocks
// after open(). Any number of requests may be in flight. Replies come in the order of the requests,
// each to its own function, called from within serve().
//
// The protocol allows one wait at a time on a connection, and any further request cancels it.
// Requests made after a wait() or barrier() are therefore held back until it is over. Use a second
// client where that is a problem. Protocol: docs/protocol.md §1, dialect D.
class AsyncStoreClient {
 public:
  template <class T>
  using Done = std::function<void(Result<T>)>;

  // Connects and does the handshake, which blocks for at most connect_timeout. Fails with a clause
  // such as `cannot reach a store at node1:29400 within 30000 ms: Connection refused`.
  static Result<std::unique_ptr<AsyncStoreClient>> open(const StoreClientOptions& options);
  ~AsyncStoreClient();
  AsyncStoreClient(const AsyncStoreClient&) = delete;
  AsyncStoreClient& operator=(const AsyncStoreClient&) = delete;

  // The store does not reply to these. A failure shows at the next request that gets a reply.
  void set(std::string_view key, std::string_view value);
  void append(std::string_view key, std::string_view data);
  void multi_set(const std::vector<std::pair<std::string, std::string>>& entries);
  void queue_push(std::string_view key, std::string_view value);

  // Waits until the key exists, then returns its value. Takes one round trip if it exists already.
  void get(std::string_view key, Duration timeout, Done<std::string> done);
  // The current value, or nothing.
  void find(std::string_view key, Done<std::optional<std::string>> done);
  void add(std::string_view key, std::int64_t delta, Done<std::int64_t> done);
  // Returns the value after the operation: `desired` if the key held `expected` (if that is empty:
  // or did not exist).
  void compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                   Done<std::string> done);
  // Whether all keys exist.
  void check(const std::vector<std::string>& keys, Done<bool> done);
  // Fails after `timeout` with a clause that names the keys.
  void wait(const std::vector<std::string>& keys, Duration timeout, Done<void> done);
  void barrier(std::string_view key, std::int64_t world_size, Duration timeout, Done<void> done);
  // Whether the key existed.
  void delete_key(std::string_view key, Done<bool> done);
  void num_keys(Done<std::int64_t> done);
  // The value is empty for a key that does not exist.
  void multi_get(const std::vector<std::string>& keys, Done<std::vector<std::string>> done);
  // The oldest entry, or nothing if the queue is empty.
  void queue_pop(std::string_view key, Done<std::optional<std::string>> done);
  void queue_length(std::string_view key, Done<std::int64_t> done);
  // Without the prefix. Keys with other prefixes (init/) are omitted.
  void list_keys(Done<std::vector<std::string>> done);

  // For poll or epoll. The client owns it.
  int descriptor() const;
  // POLLIN, and also POLLOUT while there is data to write.
  short wanted_events() const;
  // Milliseconds after which to call serve() in any case; -1: no limit.
  int next_wait_ms() const;
  // Writes, reads, and calls the functions of requests that are complete or have timed out. Never
  // blocks.
  void serve();
  // Only writes: sends pending requests without reading replies.
  void write();
  // Why the connection is unusable. Empty while it works.
  const std::string& broken() const;

 private:
  class Impl;
  explicit AsyncStoreClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A blocking client of a store (this program's or PyTorch's, 2.2 and later), for tools and tests.
//
//   auto client = cpprun::StoreClient::open({.host = "node1", .port = 29400});
//   if (!client) return report_error(client.error().reason);
//   client->set("greeting", "hello");
//
// Every call ends within its timeout. A failed call returns the reason as a clause. After a failure
// of the connection every further call fails with the same reason. Not thread-safe.
class StoreClient {
 public:
  // Retries until connect_timeout, because the store may not be listening yet.
  static Result<StoreClient> open(const StoreClientOptions& options);

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
  explicit StoreClient(std::unique_ptr<AsyncStoreClient> client, Duration timeout);

  // Drives the client until the slot is filled.
  template <class T>
  Result<T> await(std::optional<Result<T>>& slot);
  Result<void> written();

  std::unique_ptr<AsyncStoreClient> client_;
  Duration timeout_;
};

}  // namespace cpprun
