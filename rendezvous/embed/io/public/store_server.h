// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// An embeddable store, in C++17 and later, for PyTorch's clients of every version since 1.9 and for
// StoreClient. It serves until it is destroyed, in its own thread (StoreServer) or in the caller's
// event loop (StoreService).
//
//   auto server = cpprun::StoreServer::open({"127.0.0.1", 29500});
//   if (!server) return report_error(server.error());
//   std::printf("serving on port %d\n", server->port());
//
// Nothing throws except std::bad_alloc from this header's own code. The classes are wrappers around
// the C functions of <cpprun/store.h>. No C++ class crosses the library's boundary, so a program
// may use any compiler and any standard library. That file also describes threads and lifetime.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "rendezvous/embed/io/public/expected.h"
#include "rendezvous/embed/io/public/store.h"

namespace cpprun {
inline namespace v1 {

struct StoreServerOptions {
  std::string host = {};   // name or address to listen on; empty: every interface
  std::uint16_t port = 0;  // 0: the kernel picks one
  // Limit on the bytes that clients can make the server hold: values, and pending requests and
  // replies. A client that exceeds it is disconnected. 0: half of the memory of the machine or of
  // the control group.
  std::uint64_t memory_bytes_max = 0;
  // Called for every connection that the server closes, with one line without a newline, in the
  // serving thread. Must not throw. Clients that simply disconnect are not reported.
  std::function<void(const std::string& line)> log = {};
};

namespace detail {

// The C library holds a pointer to the log, so it has a fixed address even if a server is moved.
using Log = std::function<void(const std::string&)>;

inline cpprun_store_server_options c_options(const StoreServerOptions& options, Log* log) {
  cpprun_store_server_options c = {};
  c.size = sizeof(c);
  c.host = options.host.c_str();
  c.port = options.port;
  c.memory_bytes_max = options.memory_bytes_max;
  if (*log) {
    c.log = [](void* user, const char* line) noexcept { (*static_cast<Log*>(user))(line); };
    c.log_user = log;
  }
  return c;
}

}  // namespace detail

// Serves in its own thread.
class StoreServer {
 public:
  static Expected<StoreServer> open(const StoreServerOptions& options) {
    auto log = std::make_unique<detail::Log>(options.log);
    const cpprun_store_server_options c = detail::c_options(options, log.get());
    cpprun_store_server* server = cpprun_store_serve_with(&c);
    if (server == nullptr) return Failure{cpprun_store_error()};
    return StoreServer(std::move(log), server);
  }

  // 0 after a move from this object.
  std::uint16_t port() const { return cpprun_store_port(server_.get()); }
  // The address it is bound to: "[::]:43211".
  std::string address() const { return cpprun_store_address(server_.get()); }
  // Closes every connection and joins the thread. Clients notice at once, even those that wait. The
  // destructor does the same.
  void stop() { server_.reset(); }

 private:
  StoreServer(std::unique_ptr<detail::Log> log, cpprun_store_server* server)
      : log_(std::move(log)), server_(server, &cpprun_store_stop) {}

  std::unique_ptr<detail::Log> log_;  // outlives the server, which calls it
  std::unique_ptr<cpprun_store_server, void (*)(cpprun_store_server*)> server_;
};

// For programs with their own event loop; it has no thread. Wait until descriptor() is readable or
// next_wait_ms() have passed, whichever comes first, then call serve().
class StoreService {
 public:
  static Expected<StoreService> open(const StoreServerOptions& options) {
    auto log = std::make_unique<detail::Log>(options.log);
    const cpprun_store_server_options c = detail::c_options(options, log.get());
    cpprun_store_service* service = cpprun_store_service_open(&c);
    if (service == nullptr) return Failure{cpprun_store_error()};
    return StoreService(std::move(log), service);
  }

  std::uint16_t port() const { return cpprun_store_service_port(service_.get()); }
  std::string address() const { return cpprun_store_service_address(service_.get()); }
  // For poll or epoll. The service owns it.
  int descriptor() const { return cpprun_store_service_descriptor(service_.get()); }
  // Milliseconds after which to call serve() in any case; -1: no limit. Suitable for poll(2).
  int next_wait_ms() const { return cpprun_store_service_wait_ms(service_.get()); }
  // Does all pending work and never blocks.
  void serve() { cpprun_store_service_serve(service_.get()); }

 private:
  StoreService(std::unique_ptr<detail::Log> log, cpprun_store_service* service)
      : log_(std::move(log)), service_(service, &cpprun_store_service_close) {}

  std::unique_ptr<detail::Log> log_;
  std::unique_ptr<cpprun_store_service, void (*)(cpprun_store_service*)> service_;
};

}  // namespace v1
}  // namespace cpprun
