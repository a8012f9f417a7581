// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/io/connection_driver.h"

#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

namespace cpprun {

// Shared with pending handlers, which may run after the driver is gone.
class ConnectionDriver::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& io, ConnectionSet& connections)
      : connections_(&connections), io_(io), readable_(io, connections.descriptor()), timer_(io) {}

  void stop() {
    connections_ = nullptr;
    timer_.cancel();
    // The set owns the descriptor; Asio only watched it.
    (void)readable_.release();
  }

  void wait() {
    readable_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [self = shared_from_this()](const asio::error_code& error) {
                           if (error || self->connections_ == nullptr) return;
                           // One turn is enough before links are served again.
                           if (!self->is_posted_) self->serve();
                           if (self->connections_ != nullptr) self->wait();
                         });
  }

 private:
  void serve() {
    if (connections_->serve(std::chrono::steady_clock::now()) && !is_posted_) {
      // Other handlers of this io_context run first, then the rest of the slice.
      is_posted_ = true;
      asio::post(io_, [self = shared_from_this()] {
        self->is_posted_ = false;
        if (self->connections_ != nullptr) self->serve();
      });
    }
    if (connections_ != nullptr) arm_timer();
  }

  void arm_timer() {
    const std::optional<TimePoint> deadline = connections_->next_deadline();
    if (!deadline || deadline == armed_) return;
    armed_ = deadline;
    timer_.expires_at(std::chrono::time_point_cast<asio::steady_timer::duration>(*deadline));
    timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (error || self->connections_ == nullptr) return;
      self->armed_.reset();
      self->serve();
    });
  }

  ConnectionSet* connections_;  // null once the driver is gone
  asio::io_context& io_;
  asio::posix::stream_descriptor readable_;
  asio::steady_timer timer_;
  std::optional<TimePoint> armed_;
  bool is_posted_ = false;
};

ConnectionDriver::ConnectionDriver(asio::io_context& io, ConnectionSet& connections)
    : impl_(std::make_shared<Impl>(io, connections)) {
  impl_->wait();
}

ConnectionDriver::~ConnectionDriver() {
  impl_->stop();
}

}  // namespace cpprun
