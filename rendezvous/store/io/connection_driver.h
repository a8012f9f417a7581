// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Runs a ConnectionSet in an io_context, with one descriptor and one timer for all connections.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <memory>
#include <optional>

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
  void wait();
  void serve();
  void arm_timer();

  asio::io_context& io_;
  ConnectionSet& connections_;
  asio::posix::stream_descriptor readable_;
  asio::steady_timer timer_;
  std::optional<TimePoint> armed_;
  bool is_posted_ = false;
  // False once the driver is gone: pending handlers check it.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun
