// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/client/io/link_client.h"

#include <fmt/format.h>

#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <utility>
#include <vector>

#include "proto/link/codec.h"
#include "proto/text.h"
#include "rendezvous/io/secure_connection.h"

namespace cpprun {

using asio::ip::tcp;

namespace {

std::string printable(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += c >= ' ' && c <= '~' ? c : '.';
  return text;
}

}  // namespace

// One attempt: resolves the name, connects to each address in turn, and exchanges preambles, with a
// timeout for every step. Calls exactly one of `done` and `failed`, unless it is cancelled.
class LinkClient::Attempt : public std::enable_shared_from_this<Attempt> {
 public:
  // Both sides have sent the preamble. The channel is null without a secret.
  using Done = std::function<void(tcp::socket, std::unique_ptr<SecureChannel>, std::string heard)>;

  Attempt(asio::io_context& context, std::chrono::nanoseconds step_max,
          std::shared_ptr<SecureContext> secure, Done done, std::function<void(std::string)> failed)
      : step_max_(step_max),
        resolver_(context),
        socket_(context),
        timer_(context),
        secure_(std::move(secure)),
        done_(std::move(done)),
        failed_(std::move(failed)) {}

  void begin(const std::string& host, int port) {
    asio::error_code not_literal;
    const auto address = asio::ip::make_address(host, not_literal);
    if (!not_literal) {
      endpoints_.emplace_back(address, static_cast<unsigned short>(port));
      connect_next();
      return;
    }
    limit("name resolution timed out; check that the name server is reachable");
    resolver_.async_resolve(
        host, std::to_string(port), tcp::resolver::numeric_service,
        [self = shared_from_this(), host](const asio::error_code& error,
                                          const tcp::resolver::results_type& results) {
          if (self->over_) return;
          if (error) {
            self->fail(fmt::format(
                "cannot resolve \"{}\" ({}); use an address, or add the name to /etc/hosts or DNS",
                host, error.message()));
            return;
          }
          for (const auto& result : results) self->endpoints_.push_back(result.endpoint());
          self->connect_next();
        });
  }

  LinkClient::Failed how_it_failed() const {
    LinkClient::Failed failed{.addresses = {}, .refused = refused_};
    for (const auto& each : endpoints_) failed.addresses.push_back(each.address().to_string());
    return failed;
  }

  // The addresses other than the connected one.
  std::vector<std::string> other_addresses() const {
    std::vector<std::string> others;
    for (const auto& each : endpoints_) {
      if (each != endpoints_[next_]) others.push_back(each.address().to_string());
    }
    return others;
  }

  void cancel() {
    over_ = true;
    asio::error_code ignored;  // there may be nothing to cancel
    if (handshake_) std::exchange(handshake_, nullptr)->cancel();
    resolver_.cancel();
    timer_.cancel();
    socket_.close(ignored);
    done_ = nullptr;
    failed_ = nullptr;
  }

 private:
  void limit(std::string reason) {
    timer_.expires_after(step_max_);
    timer_.async_wait(
        [self = shared_from_this(), reason = std::move(reason)](const asio::error_code& cancelled) {
          if (cancelled || self->over_) return;
          self->timed_out_ = reason;
          if (self->handshake_) {
            std::exchange(self->handshake_, nullptr)->cancel();
            return self->give_up_address(reason);
          }
          asio::error_code ignored;  // closing makes the pending step fail
          self->resolver_.cancel();
          self->socket_.close(ignored);
        });
  }

  void connect_next() {
    asio::error_code ignored;  // the previous address's socket is closed
    socket_.close(ignored);
    timed_out_.clear();
    refused_ = false;
    limit(fmt::format(
        "connection timed out after {} s: packets are dropped (a firewall or a wrong address)",
        std::chrono::duration<double>(step_max_).count()));
    socket_.async_connect(endpoints_[next_],
                          [self = shared_from_this()](const asio::error_code& error) {
                            if (self->over_) return;
                            if (!error) {
                              self->greet();
                              return;
                            }
                            self->refused_ = error == asio::error::connection_refused;
                            self->give_up_address(connect_error_text(error));
                          });
  }

  void greet() {
    if (secure_) return greet_secretly();
    limit("connected, but received no greeting; check that a cpprun master listens there");
    asio::async_write(socket_, asio::buffer(link::preamble),
                      [](const asio::error_code&, std::size_t) {
                        // A failure shows in the read below.
                      });
    asio::async_read(
        socket_, asio::buffer(greeting_),
        [self = shared_from_this()](const asio::error_code& error, std::size_t length) {
          if (self->over_) return;
          const std::string_view heard{self->greeting_.data(), length};
          if (!error && heard == link::preamble) {
            self->succeed();
          } else if (length > 0) {
            self->give_up_address(fmt::format(
                "the program at this port is not a cpprun master (it sent \"{}\"); check the port",
                printable(heard)));
          } else {
            self->give_up_address(
                "connection closed without a greeting; check that a cpprun master listens there");
          }
        });
  }

  void greet_secretly() {
    limit(
        "connected, but received no response to the handshake; check that a cpprun master listens "
        "there");
    handshake_ = std::make_shared<SecureHandshake>(std::move(socket_), secure_, std::string());
    socket_ = tcp::socket(timer_.get_executor());  // for the next address, if there is one
    handshake_->start(link::preamble,
                      {.done =
                           [self = shared_from_this()](SecureHandshake::Done done) {
                             if (self->over_) return;
                             self->handshake_ = nullptr;
                             if (!done.heard.starts_with(link::preamble)) {
                               return self->give_up_address(
                                   "the server has the secret, but is not a cpprun master");
                             }
                             done.heard.erase(0, link::preamble.size());
                             self->succeed(std::move(done));
                           },
                       .failed =
                           [self = shared_from_this()](const std::string& reason) {
                             if (self->over_) return;
                             self->handshake_ = nullptr;
                             self->give_up_address(reason);
                           }});
  }

  void give_up_address(const std::string& reason) {
    const std::string why = timed_out_.empty() ? reason : timed_out_;
    if (++next_ < endpoints_.size()) {
      connect_next();
    } else {
      fail(why);
    }
  }

  void succeed() { succeed({std::move(socket_), nullptr, {}}); }

  void succeed(SecureHandshake::Done made) {
    over_ = true;
    timer_.cancel();
    const auto done = std::move(done_);
    done(std::move(made.socket), std::move(made.channel), std::move(made.heard));
  }

  void fail(const std::string& reason) {
    over_ = true;
    timer_.cancel();
    auto failed = std::move(failed_);
    failed(timed_out_.empty() ? reason : timed_out_);
  }

  const std::chrono::nanoseconds step_max_;
  tcp::resolver resolver_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  std::shared_ptr<SecureContext> secure_;
  std::shared_ptr<SecureHandshake> handshake_;  // while the handshake runs
  Done done_;
  std::function<void(std::string)> failed_;
  std::vector<tcp::endpoint> endpoints_;
  std::size_t next_ = 0;
  std::array<char, link::preamble.size()> greeting_{};
  std::string timed_out_;
  bool refused_ = false;  // by the last address
  bool over_ = false;
};

LinkClient::LinkClient(asio::io_context& context, std::string host, int port, Callbacks callbacks,
                       std::shared_ptr<SecureContext> secure)
    : context_(context),
      host_(std::move(host)),
      port_(port),
      callbacks_(std::move(callbacks)),
      secure_(std::move(secure)) {}

LinkClient::~LinkClient() {
  if (attempt_) attempt_->cancel();
  if (channel_) channel_->forget();
}

void LinkClient::dial(std::chrono::nanoseconds step_max) {
  hang_up();
  attempt_ = std::make_shared<Attempt>(
      context_, step_max, secure_,
      [this](tcp::socket socket, std::unique_ptr<SecureChannel> secure, std::string heard) {
        failed_ = {};
        other_addresses_ = attempt_->other_addresses();
        asio::error_code gone;  // if it is, the link's first read reports why
        const std::string local = socket.local_endpoint(gone).address().to_string();
        channel_ =
            std::make_shared<LinkChannel>(std::move(socket), std::move(heard), std::move(secure));
        channel_->start({.message = callbacks_.message,
                         .streams = callbacks_.streams,
                         .room = callbacks_.room,
                         .closed = callbacks_.down});
        callbacks_.up(local);
      },
      [this](const std::string& reason) {
        failed_ = attempt_->how_it_failed();
        callbacks_.down(reason);
      });
  attempt_->begin(host_, port_);
}

void LinkClient::send(const link::Message& message) {
  if (channel_) channel_->send(message);
}

void LinkClient::send_bytes(std::string_view bytes) {
  if (channel_) channel_->send_bytes(bytes);
}

void LinkClient::hang_up() {
  if (attempt_) attempt_->cancel();
  if (!channel_) return;
  channel_->forget();
  channel_->hang_up("");
  channel_.reset();
}

void LinkClient::break_off() {
  if (channel_) channel_->break_off();
  hang_up();
}

}  // namespace cpprun
