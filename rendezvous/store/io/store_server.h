// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A store to embed: PyTorch clients of every version since 1.9, and StoreClient, connect to its
// port. It serves until it is destroyed, in a thread of its own or in the caller's loop.
//
//   cpprun::StoreServer server({.host = "", .port = 29500});
//   std::printf("serving on port %d\n", server.port());

#include <cstdint>
#include <memory>
#include <string>

#include "rendezvous/store/io/open_store.h"

namespace cpprun {

// Serves in a thread of its own.
class StoreServer {
 public:
  // Throws std::runtime_error with a sentence if it cannot listen; open() returns the error
  // instead.
  explicit StoreServer(const StoreServerOptions& options);
  static StoreResult<std::unique_ptr<StoreServer>> open(const StoreServerOptions& options);
  // Ends every connection and joins the thread, in any thread and in callbacks. Clients see the end
  // at once, even those that wait. In a fork it only closes the copies of the descriptors.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  std::uint16_t port() const;
  // The bound address: "[::]:43211" or "unix:PATH".
  std::string address() const;
  OpenStore& store() const;

 private:
  class Impl;
  explicit StoreServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The same without a thread, for programs with a loop of their own. Wait until descriptor() is
// readable or next_wait_ms() have passed, whichever comes first, then call serve().
class StoreService {
 public:
  static StoreResult<std::unique_ptr<StoreService>> open(const StoreServerOptions& options);
  ~StoreService();
  StoreService(const StoreService&) = delete;
  StoreService& operator=(const StoreService&) = delete;

  std::uint16_t port() const { return store_->port(); }
  std::string address() const { return store_->address(); }
  // For poll or epoll; owned by the service.
  int descriptor() const { return store_->descriptor(); }
  // Milliseconds after which serve() must be called in any case; -1: never. Suitable for poll(2).
  int next_wait_ms() const { return store_->next_wait_ms(); }
  // Does a bounded amount of pending work, and never blocks.
  void serve() { store_->serve(); }
  OpenStore& store() const { return *store_; }

 private:
  explicit StoreService(std::shared_ptr<OpenStore> store) : store_(std::move(store)) {}
  const std::shared_ptr<OpenStore> store_;
};

}  // namespace cpprun
