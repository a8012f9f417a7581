// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A store that serves its clients: the part that StoreServer, StoreService and clients in the same
// process share. All of it may be used by any thread; one of them serves.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "rendezvous/client/io/store_client.h"
#include "rendezvous/client/local_store.h"
#include "rendezvous/io/owner_process.h"
#include "rendezvous/store/io/connection_set.h"
#include "rendezvous/store/io/secure_clients.h"
#include "rendezvous/store/store_namespaces.h"

namespace cpprun {

struct StoreServerOptions {
  // Name or address to listen on, or "unix:PATH"; empty: every interface.
  std::string host{};
  std::uint16_t port = 0;  // 0: the kernel picks one
  // Called with one line, without newline, for every connection that the server itself closed.
  // Clients that simply left are not reported.
  std::function<void(const std::string& line)> log{};
  // Bytes that clients may make the server hold: values, and requests and replies in progress. A
  // client that exceeds the limit is closed, with a line for the log. 0: half of the memory of the
  // machine or of the control group.
  std::uint64_t memory_bytes_max = 0;
  // Used instead of `host`: a socket that listens already. The store takes ownership; -1: none.
  int passed = -1;
  // Whether that client may use the store: "10.0.0.1:40112". Called while the store is locked.
  std::function<bool(const std::string& client)> admit{};
  // Of connections in all. 0: no limit, as for those below.
  std::uint64_t clients_max = 0;
  // Of the clients of one address together.
  std::uint64_t address_clients_max = 0;
  std::uint64_t address_keys_max = 0;
  std::uint64_t address_bytes_max = 0;
  std::vector<StoreNamespace> namespaces{};
  // Not null: clients with a socket have to use TLS, with the server's secret.
  MakeCipher make_cipher{};
};

class LocalTransport;

// Callbacks are made while the store is not locked, by the thread that serves, so they may use the
// store and close it. None is made after close() has returned. `admit` is different: it is called
// while the store is locked, perhaps by a thread that uses the store, and may close it, but not use
// it.
class OpenStore : public std::enable_shared_from_this<OpenStore> {
 public:
  static StoreResult<std::shared_ptr<OpenStore>> open(const StoreServerOptions& options);
  ~OpenStore();
  OpenStore(const OpenStore&) = delete;
  OpenStore& operator=(const OpenStore&) = delete;

  std::uint16_t port() const { return listening_.port; }
  const std::string& address() const { return listening_.address; }
  int descriptor() const { return descriptor_; }
  int next_wait_ms();
  // Does a bounded amount of pending work, and makes callbacks. Never blocks.
  void serve();
  // Ends every connection. Clients see the end at once, even those that wait.
  void close();
  // For a fork, which shares the sockets with its parent: frees the memory and closes the copies of
  // the descriptors. The parent notices nothing.
  void let_go_in_fork();
  // This thread is in `admit`, so it holds the mutex, and close() takes effect after it.
  bool is_admitting_here() const {
    return admitting_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  // Refuses new clients, and returns when all others have left, except those in this process.
  StoreResult<void> drain(TimePoint deadline);
  // A connection without a socket, and a client over one. Host and port of the options do not
  // count.
  StoreResult<std::unique_ptr<StoreTransport>> transport();
  StoreResult<StoreClient> connect(const StoreClientOptions& options);

 private:
  friend class LocalTransport;
  class Host;
  class Reaper;
  struct Watch {
    ConnectionId client;
    std::string prefix;
    LocalStore::Watcher watcher;
    bool has_lost = false;  // guarded by the mutex: an event that says so is queued
  };
  struct Event {
    std::shared_ptr<Watch> watch;
    StoreChange change = StoreChange::updated;
    std::size_t bytes = 0;  // counted in callback_bytes_
    std::string key = {};
    std::string value = {};
  };
  using Callback = std::variant<std::string, Event>;  // a line for the log, or a change
  // What watchers own may use the store when it is released, so the caller does that without the
  // mutex.
  struct Removed {
    std::vector<std::shared_ptr<Watch>> watches;
    std::deque<Callback> callbacks;
  };

  OpenStore(const StoreServerOptions& options, StoreNamespaces namespaces);
  // Fails within `admit`.
  StoreResult<void> usable() const;
  // Fails there, in a fork, and if the store is closed.
  StoreResult<std::unique_lock<std::mutex>> enter();
  [[nodiscard]] Removed close_now();
  // With the mutex: does one turn of the work of the thread that serves.
  void help();
  // With the mutex, after clients were served: deletes keys whose leases have ended, and has the
  // thread that serves do what is left.
  void settle();
  void open_reaper();
  bool leases_end_by_time();
  void delete_ended(StoreNamespaces::Times times);
  StoreResult<void> open_secure(MakeCipher make_cipher);
  // Clients with a socket.
  std::size_t socket_count() const;
  // With the mutex. No request is half done.
  Store& contents();
  // The address of a client, for people.
  std::string name_of(ConnectionId client) const;
  std::string name_of(const PeerAddress& peer) const;
  void observe(c10d::Change change, std::string_view key, const StoredValue* value);
  void add_watch(Watch watch);
  Removed remove_watches(ConnectionId client);
  // Some of those that are queued, for a bounded time.
  void make_callbacks();

  const std::function<void(const std::string&)> log_;
  const std::function<bool(const std::string&)> admit_;
  const std::uint64_t clients_max_;
  const bool is_secure_;
  const OwnerProcess owner_;
  Listening listening_;
  FileDescriptor both_;  // with a secret, an epoll set of both descriptors
  int descriptor_ = -1;
  // The thread that is in `admit` and therefore holds the mutex.
  std::atomic<std::thread::id> admitting_{};

  std::mutex mutex_;  // guards what follows; held by the thread that serves
  StoreNamespaces namespaces_;
  std::optional<TimePoint> next_lease_;  // when the thread that serves looks at the leases
  std::optional<TimePoint> leases_held_since_;
  std::shared_ptr<Reaper> reaper_;  // null: there are no namespaces
  std::unique_ptr<Host> host_;
  std::unique_ptr<ConnectionSet> connections_;  // null: closed
  std::unique_ptr<SecureClients> secure_;       // null: there is no secret
  bool is_serving_ = false;                     // this is a turn of the thread that serves
  bool has_more_ = false;                       // serve() stopped at the end of its slice
  bool is_closing_ = false;                     // close() was called from `admit`
  std::condition_variable left_;                // a client has left
  std::vector<std::shared_ptr<Watch>> watches_;
  std::deque<Callback> callbacks_;
  std::size_t callback_bytes_ = 0;  // of the events in callbacks_

  // Held while callbacks are made. Recursive: a callback may end a watch.
  std::recursive_mutex calling_;
};

}  // namespace cpprun
