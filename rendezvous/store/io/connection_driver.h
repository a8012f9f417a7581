// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Lets an io_context drive a ConnectionSet: one descriptor and one timer stand for all connections.

#include <asio/io_context.hpp>
#include <memory>

#include "rendezvous/store/io/connection_set.h"

namespace cpprun {

class ConnectionDriver {
 public:
  // Starts to serve at once; `connections` must outlive the driver.
  ConnectionDriver(asio::io_context& io, ConnectionSet& connections);
  ~ConnectionDriver();
  ConnectionDriver(const ConnectionDriver&) = delete;
  ConnectionDriver& operator=(const ConnectionDriver&) = delete;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cpprun
