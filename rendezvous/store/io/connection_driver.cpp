// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/io/connection_driver.h"

#include <asio/post.hpp>

namespace cpprun {

ConnectionDriver::ConnectionDriver(asio::io_context& io, ConnectionSet& connections)
    : io_(io), connections_(connections), readable_(io, connections.descriptor()), timer_(io) {
  wait();
}

ConnectionDriver::~ConnectionDriver() {
  *alive_ = false;
  // The set owns the descriptor; Asio only watched it.
  (void)readable_.release();
}

void ConnectionDriver::wait() {
  readable_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [this, alive = alive_](const asio::error_code& error) {
                         if (error || !*alive) return;
                         // One turn is enough before links are served again.
                         if (!is_posted_) serve();
                         if (*alive) wait();
                       });
}

// The set may end this driver from within its turn.
void ConnectionDriver::serve() {
  const auto alive = alive_;
  const bool has_more = connections_.serve(std::chrono::steady_clock::now());
  if (!*alive) return;
  if (has_more && !is_posted_) {
    // Other handlers of this io_context run first, then the rest of the slice.
    is_posted_ = true;
    asio::post(io_, [this, alive] {
      if (!*alive) return;
      is_posted_ = false;
      serve();
    });
  }
  arm_timer();
}

void ConnectionDriver::arm_timer() {
  const std::optional<TimePoint> deadline = connections_.next_deadline();
  if (!deadline || deadline == armed_) return;
  armed_ = deadline;
  timer_.expires_at(std::chrono::time_point_cast<asio::steady_timer::duration>(*deadline));
  timer_.async_wait([this, alive = alive_](const asio::error_code& error) {
    if (error || !*alive) return;
    armed_.reset();
    serve();
  });
}

}  // namespace cpprun
