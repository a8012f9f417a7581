// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Runs a ConnectionSet in an io_context, with one descriptor and one timer for all connections.

#include <asio/io_context.hpp>
#include <memory>

#include "rendezvous/store/io/connection_set.h"

namespace cpprun {

class ConnectionDriver {
 public:
  // Starts serving at once. `connections` must outlive the driver.
  ConnectionDriver(asio::io_context& io, ConnectionSet& connections);
  ~ConnectionDriver();
  ConnectionDriver(const ConnectionDriver&) = delete;
  ConnectionDriver& operator=(const ConnectionDriver&) = delete;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cpprun
