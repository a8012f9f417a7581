// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/secure_connection.h"

#include <asio/post.hpp>

#include <array>
#include <new>
#include <utility>

#include "proto/sniff.h"
#include "rendezvous/bounds.h"

namespace cpprun {

SecureHandshake::SecureHandshake(asio::ip::tcp::socket socket,
                                 const std::shared_ptr<SecureContext>& context,
                                 std::string first_bytes)
    : socket_(std::move(socket)),
      channel_(std::make_unique<SecureChannel>(context)),
      first_bytes_(std::move(first_bytes)) {
  asio::error_code ignored;  // Where it fails, the first read says why.
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
}

void SecureHandshake::start(std::string_view said_first, Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  channel_->say(said_first);
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->callbacks_.done == nullptr) return;
    self->hear(std::exchange(self->first_bytes_, {}));
  });
}

void SecureHandshake::cancel() {
  callbacks_ = {};
  asio::error_code ignored;  // It is over either way.
  socket_.close(ignored);
}

void SecureHandshake::wait() {
  socket_.async_wait(asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this()](const asio::error_code& error) {
                       if (self->callbacks_.done == nullptr) return;
                       if (error) return self->fail(error.message());
                       self->read();
                     });
}

void SecureHandshake::read() {
  std::array<char, bounds::link_read_bytes> chunk;
  asio::error_code error;
  const std::size_t length = socket_.read_some(asio::buffer(chunk), error);
  if (error == asio::error::would_block) return wait();
  if (error == asio::error::eof) {
    return fail("connection closed before the peer proved that it has the secret");
  }
  if (error) return fail(error.message());
  hear({chunk.data(), length});
}

void SecureHandshake::hear(std::string_view bytes) {
  bytes_heard_ += bytes.size();
  if (bytes_heard_ > bounds::handshake_bytes_max)
    return fail("the peer sent more bytes than a handshake can have");
  bool goes_on = false;
  try {
    goes_on = channel_->hear(bytes);
    heard_ += channel_->take_heard();
  } catch (const std::bad_alloc&) {
    return fail("out of memory");
  }
  const bool is_sent = flush();
  if (!goes_on) return fail(channel_->reason());
  if (!is_sent) return fail("the peer does not read");
  if (channel_->is_finished()) return fail("connection closed by the peer");
  if (!channel_->is_established() || sniff(heard_) == Protocol::undecided) return wait();
  const auto callbacks = std::exchange(callbacks_, {});
  callbacks.done({std::move(socket_), std::move(channel_), std::move(heard_)});
}

// A kilobyte at most, on a connection that has carried nothing yet: it fits, or something is wrong.
bool SecureHandshake::flush() {
  const std::string bytes = channel_->take_outgoing();
  asio::error_code error;
  return bytes.empty() || socket_.write_some(asio::buffer(bytes), error) == bytes.size();
}

void SecureHandshake::fail(std::string reason) {
  const auto callbacks = std::exchange(callbacks_, {});
  asio::error_code ignored;  // It is over either way.
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
  callbacks.failed(std::move(reason));
}

}  // namespace cpprun
