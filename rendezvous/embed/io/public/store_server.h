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
// Nothing throws except std::bad_alloc from this header's own code. What a callback throws is
// dropped; an `admit` that throws rejects the client. The classes are wrappers around
// the C functions of <cpprun/store.h>. No C++ class crosses the library's boundary, so a program
// may use any compiler and any standard library. That file also describes threads and lifetime.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/embed/io/public/expected.h"
#include "rendezvous/embed/io/public/store.h"

namespace cpprun {
inline namespace v1 {

// Rules for the keys that begin with a prefix; cpprun_store_namespace in <cpprun/store.h> describes
// them.
struct StoreNamespace {
  std::string prefix;  // as the store has the keys: "/alive/"
  std::uint64_t keys_max = 0;
  std::uint64_t bytes_max = 0;
  bool ends_with_client = false;
  std::chrono::milliseconds lease{0};
};

struct StoreServerOptions {
  // Name or address to listen on; empty: 127.0.0.1; "*": every interface; "unix:PATH": a Unix
  // socket.
  std::string host = {};
  std::uint16_t port = 0;  // 0: the kernel picks one
  // Limit on the bytes that clients can make the server hold: values, and pending requests and
  // replies. A client that exceeds it is disconnected. 0: half of the memory of the machine or of
  // the control group.
  std::uint64_t memory_bytes_max = 0;
  // Called for every connection that the server closes, with one line without a newline, in the
  // serving thread. Clients that simply disconnect are not reported.
  std::function<void(const std::string& line)> log = {};
  // Used instead of host and port: a socket that listens already. The server uses a duplicate. 0:
  // none.
  int listening_socket = 0;
  // Whether that client may use the store: "10.0.0.1:40112". Called in the serving thread. Must not
  // use the store.
  std::function<bool(const std::string& client)> admit = {};
  // Limits of clients in all, and of the clients of one address together. 0: none.
  std::uint64_t clients_max = 0;
  std::uint64_t address_clients_max = 0;
  std::uint64_t address_keys_max = 0;
  std::uint64_t address_bytes_max = 0;
  std::vector<StoreNamespace> namespaces = {};
  // Not empty: clients with a socket have to use TLS with this secret, as <cpprun/store.h>
  // describes.
  std::string secret = {};
};

namespace detail {

// Valid as long as the options.
inline std::vector<cpprun_store_namespace> c_namespaces(const StoreServerOptions& options) {
  std::vector<cpprun_store_namespace> all;
  for (const StoreNamespace& space : options.namespaces) {
    cpprun_store_namespace c = {};
    c.size = sizeof(c);
    c.prefix = space.prefix.c_str();
    c.keys_max = space.keys_max;
    c.bytes_max = space.bytes_max;
    c.ends_with_client = space.ends_with_client ? 1 : 0;
    c.lease_ms = space.lease.count();
    all.push_back(c);
  }
  return all;
}

// The C library holds a pointer to them, so they have a fixed address even if a server is moved.
struct Callbacks {
  std::function<void(const std::string&)> log;
  std::function<bool(const std::string&)> admit;
};

inline cpprun_store_server_options c_options(const StoreServerOptions& options,
                                             const std::vector<cpprun_store_namespace>& namespaces,
                                             Callbacks* callbacks) {
  cpprun_store_server_options c = {};
  c.size = sizeof(c);
  c.host = options.host.c_str();
  c.port = options.port;
  c.memory_bytes_max = options.memory_bytes_max;
  c.listening_socket = options.listening_socket;
  c.clients_max = options.clients_max;
  c.address_clients_max = options.address_clients_max;
  c.address_keys_max = options.address_keys_max;
  c.address_bytes_max = options.address_bytes_max;
  c.namespaces = namespaces.data();
  c.namespace_count = namespaces.size();
  c.secret = options.secret.empty() ? nullptr : options.secret.c_str();
  c.log_user = c.admit_user = callbacks;
  if (callbacks->log) {
    c.log = [](void* user, const char* line) noexcept {
      without_exceptions([&] { static_cast<Callbacks*>(user)->log(line); });
    };
  }
  if (callbacks->admit) {
    c.admit = [](void* user, const char* client) noexcept {
      bool is_admitted = false;
      without_exceptions([&] { is_admitted = static_cast<Callbacks*>(user)->admit(client); });
      return is_admitted ? 1 : 0;
    };
  }
  return c;
}

}  // namespace detail

// Serves in its own thread.
class StoreServer {
 public:
  StoreServer(StoreServer&&) noexcept = default;
  StoreServer& operator=(StoreServer&& other) noexcept {
    server_ = std::move(other.server_);  // calls the old callbacks until it has ended
    callbacks_ = std::move(other.callbacks_);
    return *this;
  }

  static Expected<StoreServer> open(const StoreServerOptions& options) {
    std::unique_ptr<detail::Callbacks> callbacks(new detail::Callbacks{options.log, options.admit});
    const auto namespaces = detail::c_namespaces(options);
    const auto c = detail::c_options(options, namespaces, callbacks.get());
    cpprun_store_server* server = cpprun_store_serve_with(&c);
    if (server == nullptr) return detail::store_failure();
    return StoreServer(std::move(callbacks), server);
  }

  // 0 after a move from this object.
  std::uint16_t port() const { return cpprun_store_port(server_.get()); }
  // The address it is bound to: "[::]:43211".
  std::string address() const { return cpprun_store_address(server_.get()); }
  // For StoreClientOptions::server.
  cpprun_store_server* handle() const { return server_.get(); }
  // Refuses new clients, and returns when all others have disconnected, except those in this
  // process. Call stop() after it, also after a timeout.
  Expected<void> drain(std::chrono::milliseconds timeout) {
    if (cpprun_store_drain(server_.get(), timeout.count()) != 0) return detail::store_failure();
    return {};
  }
  // Closes every connection and joins the thread. Clients notice at once, even those that wait. May
  // be called in a callback, in which the object itself must not be destroyed. The destructor does
  // the same.
  void stop() { server_.reset(); }

 private:
  StoreServer(std::unique_ptr<detail::Callbacks> callbacks, cpprun_store_server* server)
      : callbacks_(std::move(callbacks)), server_(server, &cpprun_store_stop) {}

  std::unique_ptr<detail::Callbacks> callbacks_;  // outlive the server, which calls them
  std::unique_ptr<cpprun_store_server, void (*)(cpprun_store_server*)> server_;
};

// For programs with their own event loop; it has no thread. Wait until descriptor() is readable or
// next_wait_ms() have passed, whichever comes first, then call serve().
class StoreService {
 public:
  StoreService(StoreService&&) noexcept = default;
  StoreService& operator=(StoreService&& other) noexcept {
    service_ = std::move(other.service_);  // calls the old callbacks until it has ended
    callbacks_ = std::move(other.callbacks_);
    return *this;
  }

  static Expected<StoreService> open(const StoreServerOptions& options) {
    std::unique_ptr<detail::Callbacks> callbacks(new detail::Callbacks{options.log, options.admit});
    const auto namespaces = detail::c_namespaces(options);
    const auto c = detail::c_options(options, namespaces, callbacks.get());
    cpprun_store_service* service = cpprun_store_service_open(&c);
    if (service == nullptr) return detail::store_failure();
    return StoreService(std::move(callbacks), service);
  }

  std::uint16_t port() const { return cpprun_store_service_port(service_.get()); }
  std::string address() const { return cpprun_store_service_address(service_.get()); }
  // For poll or epoll. The service owns it.
  int descriptor() const { return cpprun_store_service_descriptor(service_.get()); }
  // Milliseconds after which to call serve() in any case; -1: no limit. Suitable for poll(2).
  int next_wait_ms() const { return cpprun_store_service_wait_ms(service_.get()); }
  // Does all pending work and never blocks.
  void serve() { cpprun_store_service_serve(service_.get()); }
  // For StoreClientOptions::service.
  cpprun_store_service* handle() const { return service_.get(); }

 private:
  StoreService(std::unique_ptr<detail::Callbacks> callbacks, cpprun_store_service* service)
      : callbacks_(std::move(callbacks)), service_(service, &cpprun_store_service_close) {}

  std::unique_ptr<detail::Callbacks> callbacks_;
  std::unique_ptr<cpprun_store_service, void (*)(cpprun_store_service*)> service_;
};

}  // namespace v1
}  // namespace cpprun
