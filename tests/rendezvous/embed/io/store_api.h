// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the tests of the public store headers share.

#include <cpprun/store_client.h>
#include <cpprun/store_server.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>

namespace store_api_test {

inline cpprun::StoreServer server_here(const cpprun::StoreServerOptions& options = {}) {
  auto server = cpprun::StoreServer::open(options);
  REQUIRE_MESSAGE(server, server.error());
  return std::move(*server);
}

inline cpprun::StoreClient client_with(cpprun::StoreClientOptions options) {
  options.timeout = std::chrono::seconds(10);
  auto client = cpprun::StoreClient::open(options);
  REQUIRE_MESSAGE(client, client.error());
  return std::move(*client);
}

inline cpprun::StoreClient client_of(std::uint16_t port) {
  cpprun::StoreClientOptions options;
  options.host = "127.0.0.1";
  options.port = port;
  return client_with(options);
}

// A client in the server's process.
inline cpprun::StoreClient local_client(const cpprun::StoreServer& server) {
  cpprun::StoreClientOptions options;
  options.server = server.handle();
  return client_with(options);
}

// Runs `body` in a forked child and returns its exit status; a child that hangs ends by SIGALRM.
template <class Body>
int status_of_child(Body body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(20);
    _exit(body());
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace store_api_test
