// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A client of a store for programs with a loop of their own. It never blocks and has no thread.
//
// Its descriptor is readable whenever dispatch() has something to do, also at deadlines; it stays
// the same, however often the client connects. It may be watched edge-triggered, because dispatch()
// makes it readable anew if work is left. Callbacks are called by dispatch() only, and by close().

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/client/async_requests.h"
#include "rendezvous/client/io/store_client.h"
#include "rendezvous/client/io/store_transport.h"
#include "rendezvous/client/local_store.h"

namespace cpprun {

// Not for more than one thread at a time. Callbacks may use the client and close it.
class AsyncStoreClient : public std::enable_shared_from_this<AsyncStoreClient> {
 public:
  using Id = AsyncRequestId;
  using Done = std::function<void(Id, const StoreResult<AsyncValue>&)>;
  // Opens one more connection to the store at once.
  using Connect = std::function<StoreResult<std::unique_ptr<StoreTransport>>()>;

  // Begins to connect. `connect` is for a store in this process; else the options say where.
  static StoreResult<std::shared_ptr<AsyncStoreClient>> open(const StoreClientOptions& options,
                                                             Connect connect = {});
  ~AsyncStoreClient();
  AsyncStoreClient(const AsyncStoreClient&) = delete;
  AsyncStoreClient& operator=(const AsyncStoreClient&) = delete;

  // Requests: an id, after which `done` is called once; or the failure, and it is not called.
  // Without a timeout, that of the options counts.
  using Timeout = std::optional<Duration>;
  StoreResult<Id> set(std::string_view key, std::string_view value, Timeout timeout, Done done);
  StoreResult<Id> get(std::string_view key, Timeout timeout, Done done);
  StoreResult<Id> find(std::string_view key, Timeout timeout, Done done);
  StoreResult<Id> add(std::string_view key, std::int64_t delta, Timeout timeout, Done done);
  StoreResult<Id> compare_set(std::string_view key, std::string_view expected,
                              std::string_view desired, Timeout timeout, Done done);
  StoreResult<Id> delete_key(std::string_view key, Timeout timeout, Done done);
  StoreResult<Id> wait(const std::vector<std::string>& keys, Timeout timeout, Done done);
  StoreResult<Id> barrier(std::string_view key, std::int64_t world_size, Timeout timeout,
                          Done done);
  // Every later change of a key with this prefix, until it is cancelled. `ended` is called then, or
  // when the store is closed. Only for a store in this process.
  StoreResult<Id> watch(std::string_view prefix, LocalStore::Watcher watcher, Done ended);
  // It ends with `interrupted` at the next dispatch(). False: it is over already, or unknown.
  bool cancel(Id id);

  int descriptor() const;
  // Sends, receives, and calls back; a bounded amount. Never blocks.
  void dispatch();
  // Requests whose callback was not called yet.
  std::size_t in_progress() const;
  bool is_broken() const;
  // Ends all requests with `interrupted`, and calls their callbacks. Nothing else may follow but
  // the destructor, which does the same if it was not called. In a fork neither calls anything.
  void close();

 private:
  class Impl;
  explicit AsyncStoreClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cpprun
