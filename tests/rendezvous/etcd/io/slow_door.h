// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A proxy that forwards bytes in both directions with a delay.

#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <memory>

#include "proto/clock.h"

namespace cpprun::test {

class SlowDoor {
 public:
  SlowDoor(asio::io_context& context, int port, Duration delay)
      : context_(context),
        port_(port),
        delay_(delay),
        acceptor_(context, {asio::ip::address_v4::loopback(), 0}) {
    accept();
  }
  int port() const { return acceptor_.local_endpoint().port(); }
  void be_as_slow_as(Duration delay) { delay_ = delay; }

 private:
  using tcp = asio::ip::tcp;

  struct Way : std::enable_shared_from_this<Way> {
    Way(SlowDoor& its, std::shared_ptr<tcp::socket> one, std::shared_ptr<tcp::socket> other)
        : door(its), from(std::move(one)), to(std::move(other)), timer(its.context_) {}
    void go_on() {
      from->async_read_some(asio::buffer(chunk), [self = shared_from_this()](
                                                     const asio::error_code& error,
                                                     std::size_t length) {
        if (error) return self->end();
        self->timer.expires_after(self->door.delay_);
        self->timer.async_wait([self, length](const asio::error_code&) { self->pass_on(length); });
      });
    }
    void pass_on(std::size_t length) {
      asio::async_write(*to, asio::buffer(chunk, length),
                        [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                          if (error) return self->end();
                          self->go_on();
                        });
    }
    void end() const {
      asio::error_code ignored;  // one or both may be closed already
      from->close(ignored);
      to->close(ignored);
    }
    SlowDoor& door;
    std::shared_ptr<tcp::socket> from;
    std::shared_ptr<tcp::socket> to;
    asio::steady_timer timer;
    std::array<char, 16 * 1024> chunk{};
  };

  void accept() {
    acceptor_.async_accept([this](const asio::error_code& error, tcp::socket accepted) {
      if (error) return;
      auto outer = std::make_shared<tcp::socket>(std::move(accepted));
      auto inner = std::make_shared<tcp::socket>(context_);
      asio::error_code failed;
      inner->connect({asio::ip::address_v4::loopback(), static_cast<unsigned short>(port_)},
                     failed);
      if (!failed) {
        std::make_shared<Way>(*this, outer, inner)->go_on();
        std::make_shared<Way>(*this, inner, outer)->go_on();
      }
      accept();
    });
  }

  asio::io_context& context_;
  int port_;
  Duration delay_;
  tcp::acceptor acceptor_;
};

}  // namespace cpprun::test
