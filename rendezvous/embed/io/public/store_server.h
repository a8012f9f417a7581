// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A store to embed, in C++17 and later: PyTorch's clients of every version since 1.9, and
// StoreClient, connect to its port. It serves until it is destroyed, in a thread of its own
// (StoreServer) or in the caller's loop (StoreService).
//
//   auto server = cpprun::StoreServer::open({"127.0.0.1", 29500});
//   if (!server) return complain(server.error());
//   std::printf("serving on port %d\n", server->port());
//
// Nothing throws but what runs out of memory here, in the header. All of it stands on the C
// functions of <cpprun/store.h>: no class crosses from one compiler's code to another's, so a
// program may use any compiler and any standard library. Threads and lifetime are described there.

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
  // Bytes that clients may make the server hold: values, and requests and replies under way. A
  // client that goes over it is disconnected. 0: half of the machine's memory, or of the control
  // group's.
  std::uint64_t memory_bytes_max = 0;
  // Told of every connection that was closed for a reason of ours, one line without newline, in the
  // thread that serves. Must not throw. Clients that simply left are not reported.
  std::function<void(const std::string& line)> log = {};
};

namespace detail {

// The log is called through a pointer, so it stays in one place while a server is moved.
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

// Serves in a thread of its own.
class StoreServer {
 public:
  static Expected<StoreServer> open(const StoreServerOptions& options) {
    auto log = std::make_unique<detail::Log>(options.log);
    const cpprun_store_server_options c = detail::c_options(options, log.get());
    cpprun_store_server* server = cpprun_store_serve_with(&c);
    if (server == nullptr) return Failure{cpprun_store_error()};
    return StoreServer(std::move(log), server);
  }

  // 0 once it was moved from.
  std::uint16_t port() const { return cpprun_store_port(server_.get()); }
  // What it is bound to: "[::]:43211".
  std::string address() const { return cpprun_store_address(server_.get()); }
  // Ends every connection and joins the thread: clients see the end at once, waiting ones too. The
  // destructor does the same.
  void stop() { server_.reset(); }

 private:
  StoreServer(std::unique_ptr<detail::Log> log, cpprun_store_server* server)
      : log_(std::move(log)), server_(server, &cpprun_store_stop) {}

  std::unique_ptr<detail::Log> log_;  // outlives the server, which calls it
  std::unique_ptr<cpprun_store_server, void (*)(cpprun_store_server*)> server_;
};

// The same for programs with a loop of their own, without a thread. Wait until descriptor() is
// readable or next_wait_ms() have passed, whichever comes first, then call serve().
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
  // For poll or epoll; belongs to the service.
  int descriptor() const { return cpprun_store_service_descriptor(service_.get()); }
  // Milliseconds after which serve() wants to be called anyway; -1: never. Ready for poll(2).
  int next_wait_ms() const { return cpprun_store_service_wait_ms(service_.get()); }
  // Does what there is to do and never blocks.
  void serve() { cpprun_store_service_serve(service_.get()); }

 private:
  StoreService(std::unique_ptr<detail::Log> log, cpprun_store_service* service)
      : log_(std::move(log)), service_(service, &cpprun_store_service_close) {}

  std::unique_ptr<detail::Log> log_;
  std::unique_ptr<cpprun_store_service, void (*)(cpprun_store_service*)> service_;
};

}  // namespace v1
}  // namespace cpprun
