// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A store to embed: PyTorch clients of every version since 1.9, and StoreClient, connect to its
// port. It serves until it is destroyed, in a thread of its own or in the caller's loop.
//
//   cpprun::StoreServer server({.host = "", .port = 29500});
//   std::printf("serving on port %d\n", server.port());

#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "proto/result.h"
#include "rendezvous/store/io/connection_set.h"

namespace cpprun {

struct StoreServerOptions {
  std::string host{};      // name or address to listen on; empty: every interface
  std::uint16_t port = 0;  // 0: the kernel picks one
  // Called with one line, without newline, for every connection that the server itself closed. Runs
  // in the serving thread. Clients that simply left are not reported.
  std::function<void(const std::string& line)> log{};
  // Bytes that clients may make the server hold: values, and requests and replies in progress. A
  // client that exceeds the limit is closed, with a line for the log. 0: half of the memory of the
  // machine or of the control group.
  std::uint64_t memory_bytes_max = 0;
};

// Serves in a thread of its own.
class StoreServer {
 public:
  // Throws std::runtime_error with a sentence if it cannot listen; open() returns the error
  // instead.
  explicit StoreServer(const StoreServerOptions& options);
  static Result<std::unique_ptr<StoreServer>> open(const StoreServerOptions& options);
  // Ends every connection and joins the thread. Clients see the end at once, even those that wait.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  std::uint16_t port() const;
  // The bound address: "[::]:43211".
  std::string address() const;

 private:
  class Impl;
  explicit StoreServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The same without a thread, for programs with a loop of their own. Wait until descriptor() is
// readable or next_wait_ms() have passed, whichever comes first, then call serve().
class StoreService {
 public:
  static Result<std::unique_ptr<StoreService>> open(const StoreServerOptions& options);
  ~StoreService();
  StoreService(const StoreService&) = delete;
  StoreService& operator=(const StoreService&) = delete;

  std::uint16_t port() const { return listening_.port; }
  std::string address() const { return listening_.address; }
  // For poll or epoll; owned by the service.
  int descriptor() const { return connections_.descriptor(); }
  // Milliseconds after which serve() must be called in any case; -1: never. Suitable for poll(2).
  int next_wait_ms() const;
  // Does a bounded amount of pending work, and never blocks.
  void serve();

 private:
  explicit StoreService(const StoreServerOptions& options);
  bool is_of_this_process() const;

  std::unique_ptr<StoreHost> host_;
  ConnectionSet connections_;
  Listening listening_;
  bool has_more_ = false;  // serve() stopped at the end of its slice
  const pid_t owner_ = ::getpid();
};

}  // namespace cpprun
