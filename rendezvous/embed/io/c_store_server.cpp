// SPDX-License-Identifier: BSD-3-Clause
// The serving half of <cpprun/store.h>.

#include <cstring>
#include <memory>

#include "rendezvous/embed/io/c_guard.h"
#include "rendezvous/embed/io/public/store.h"
#include "rendezvous/store/io/store_server.h"

using cpprun::failure;
using cpprun::Result;

struct cpprun_store_server {
  std::unique_ptr<cpprun::StoreServer> server;
  std::string address;
};

struct cpprun_store_service {
  std::unique_ptr<cpprun::StoreService> service;
  std::string address;
};

namespace {

// Of options that are there.
Result<cpprun::StoreServerOptions> read_options(const cpprun_store_server_options* given) {
  // What is smaller was never defined; what is larger comes from a later header, and what it adds
  // is zero where the caller does not use it.
  if (given->size < sizeof(cpprun_store_server_options)) {
    return failure("cannot serve a store: the options say a size of " +
                   std::to_string(given->size) + ", set it to sizeof(cpprun_store_server_options)");
  }
  cpprun::StoreServerOptions options;
  if (given->host != nullptr) options.host = given->host;
  options.port = given->port;
  options.memory_bytes_max = given->memory_bytes_max;
  if (given->log != nullptr) {
    options.log = [log = given->log, user = given->log_user](const std::string& line) {
      log(user, line.c_str());
    };
  }
  return options;
}

// A StoreServer or a StoreService, with its address as a text that stays where it is.
template <class Handle, class Served>
Result<std::unique_ptr<Handle>> open(const cpprun_store_server_options* given) {
  Result<cpprun::StoreServerOptions> options = read_options(given);
  if (!options) return tl::unexpected<cpprun::Error>(options.error());
  Result<std::unique_ptr<Served>> served = Served::open(*options);
  if (!served) return tl::unexpected<cpprun::Error>(served.error());
  std::string address = (*served)->address();
  return std::unique_ptr<Handle>(new Handle{std::move(*served), std::move(address)});
}

}  // namespace

int cpprun_store_abi(void) {
  return CPPRUN_STORE_ABI;
}

const char* cpprun_store_version(void) {
  return CPPRUN_VERSION;
}

const char* cpprun_store_error(void) {
  return cpprun::c::last_error().c_str();
}

std::string& cpprun::c::last_error() noexcept {
  thread_local std::string text;
  return text;
}

cpprun_store_server* cpprun_store_serve(const char* host, uint16_t port) {
  cpprun_store_server_options options{};
  options.size = sizeof options;
  options.host = host;
  options.port = port;
  return cpprun_store_serve_with(&options);
}

cpprun_store_server* cpprun_store_serve_with(const cpprun_store_server_options* options) {
  if (!cpprun::c::is_given(__func__, "options", options)) return nullptr;
  return cpprun::c::made<cpprun_store_server>(
      [&] { return open<cpprun_store_server, cpprun::StoreServer>(options); });
}

uint16_t cpprun_store_port(const cpprun_store_server* server) {
  return !cpprun::c::is_given(__func__, "server", server) ? std::uint16_t{0}
                                                          : server->server->port();
}

const char* cpprun_store_address(const cpprun_store_server* server) {
  return !cpprun::c::is_given(__func__, "server", server) ? "" : server->address.c_str();
}

void cpprun_store_stop(cpprun_store_server* server) {
  const std::unique_ptr<cpprun_store_server> ends_here(server);
}

cpprun_store_service* cpprun_store_service_open(const cpprun_store_server_options* options) {
  if (!cpprun::c::is_given(__func__, "options", options)) return nullptr;
  return cpprun::c::made<cpprun_store_service>(
      [&] { return open<cpprun_store_service, cpprun::StoreService>(options); });
}

uint16_t cpprun_store_service_port(const cpprun_store_service* service) {
  return !cpprun::c::is_given(__func__, "service", service) ? std::uint16_t{0}
                                                            : service->service->port();
}

const char* cpprun_store_service_address(const cpprun_store_service* service) {
  return !cpprun::c::is_given(__func__, "service", service) ? "" : service->address.c_str();
}

int cpprun_store_service_descriptor(const cpprun_store_service* service) {
  return !cpprun::c::is_given(__func__, "service", service) ? -1 : service->service->descriptor();
}

int cpprun_store_service_wait_ms(const cpprun_store_service* service) {
  return !cpprun::c::is_given(__func__, "service", service) ? -1 : service->service->next_wait_ms();
}

void cpprun_store_service_serve(cpprun_store_service* service) {
  if (cpprun::c::is_given(__func__, "service", service)) service->service->serve();
}

void cpprun_store_service_close(cpprun_store_service* service) {
  const std::unique_ptr<cpprun_store_service> ends_here(service);
}
