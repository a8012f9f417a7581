// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Clients of a store (ours or PyTorch's 2.2 and later): AsyncStoreClient has no thread and never
// blocks after open(), StoreClient blocks.

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
  // How long to try to reach the store; it may not be listening yet.
  Duration connect_timeout = bounds::store_client_connect_timeout;
  // How long a request may take, where the call does not say otherwise.
  Duration timeout = bounds::store_client_timeout;
  // Put before every key. PyTorch's clients use "/", so with it keys are shared with them.
  std::string key_prefix = "/";
};

// A client of a store (ours or PyTorch's 2.2 and later) for programs with a loop of their own: it
// has no thread and never blocks after open(). Any number of requests may be under way; answers
// come in the order of the requests, each to its own function, called from within serve().
//
// The protocol allows one wait at a time on a connection and takes any further request as the end
// of it. Requests made behind a wait() or barrier() are therefore held back until that is over;
// where that hurts, use a second client. Protocol: docs/protocol.md §1, dialect D.
class AsyncStoreClient {
 public:
  template <class T>
  using Done = std::function<void(Result<T>)>;

  // Connects and shakes hands, which blocks for at most connect_timeout. Fails with a clause such
  // as `cannot reach a store at node1:29400 within 30 s: Connection refused`.
  static Result<std::unique_ptr<AsyncStoreClient>> open(const StoreClientOptions& options);
  ~AsyncStoreClient();
  AsyncStoreClient(const AsyncStoreClient&) = delete;
  AsyncStoreClient& operator=(const AsyncStoreClient&) = delete;

  // Not answered by the store; a failure shows at the next request that is.
  void set(std::string_view key, std::string_view value);
  void append(std::string_view key, std::string_view data);
  void multi_set(const std::vector<std::pair<std::string, std::string>>& entries);
  void queue_push(std::string_view key, std::string_view value);

  // Waits until the key exists, then gives its value; one round trip when it already does.
  void get(std::string_view key, Duration timeout, Done<std::string> done);
  // The value as it is now; nothing when there is none.
  void find(std::string_view key, Done<std::optional<std::string>> done);
  void add(std::string_view key, std::int64_t delta, Done<std::int64_t> done);
  // What the store holds afterwards: `desired` if it held `expected` (empty: or nothing).
  void compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                   Done<std::string> done);
  // Do all of them exist?
  void check(const std::vector<std::string>& keys, Done<bool> done);
  // Fails after `timeout` with a clause that names the keys.
  void wait(const std::vector<std::string>& keys, Duration timeout, Done<void> done);
  void barrier(std::string_view key, std::int64_t world_size, Duration timeout, Done<void> done);
  // Was there one?
  void delete_key(std::string_view key, Done<bool> done);
  void num_keys(Done<std::int64_t> done);
  // Empty values for keys that do not exist.
  void multi_get(const std::vector<std::string>& keys, Done<std::vector<std::string>> done);
  // The oldest entry, or nothing when the queue is empty.
  void queue_pop(std::string_view key, Done<std::optional<std::string>> done);
  void queue_length(std::string_view key, Done<std::int64_t> done);
  // Without the prefix; keys of others (init/) are left out.
  void list_keys(Done<std::vector<std::string>> done);

  // For poll or epoll; belongs to the client.
  int descriptor() const;
  // POLLIN, and POLLOUT while something could not be written yet.
  short wanted_events() const;
  // Milliseconds after which serve() wants to be called anyway; -1: never.
  int next_wait_ms() const;
  // Writes, reads, calls what is done or has timed out; never blocks.
  void serve();
  // Only the writing of it: what was asked leaves without a look at what has come.
  void write();
  // Why the connection is of no use any more; empty while it is.
  const std::string& broken() const;

 private:
  class Impl;
  explicit AsyncStoreClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A blocking client of a store (ours or PyTorch's 2.2 and later), for tools and tests.
//
//   auto client = cpprun::StoreClient::open({.host = "node1", .port = 29400});
//   if (!client) return complain(client.error().reason);
//   client->set("greeting", "hello");
//
// Every call ends within its timeout. A failed call says why as a clause; after a failed connection
// every further call fails with the same reason. Not for several threads at once.
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
