// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/secure_connection.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <asio/post.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <new>
#include <utility>

#include "proto/bounds.h"
#include "proto/sniff.h"
#include "proto/text.h"

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
  if (bytes_heard_ > bounds::handshake_bytes_max) return fail("too many bytes for a handshake");
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

namespace {

using Local = asio::local::stream_protocol;
using PumpChunk = std::array<char, bounds::link_read_bytes>;

}  // namespace

Result<FileDescriptor> SecurePump::start(SecureHandshake::Done connection,
                                         std::shared_ptr<void> place) {
  std::array<int, 2> ends = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    return failure(errno_text(errno));
  }
  FileDescriptor ours(ends[0]);
  FileDescriptor theirs(ends[1]);
  Local::socket inner(connection.socket.get_executor());
  asio::error_code error;
  inner.assign(Local(), ours.get(), error);
  if (error) return failure(error.message());
  (void)ours.release();  // the stream's now
  std::make_shared<SecurePump>(std::move(connection), std::move(inner), std::move(place))->begin();
  return theirs;
}

SecurePump::SecurePump(SecureHandshake::Done connection, Local::socket inner,
                       std::shared_ptr<void> place)
    : outer_(std::move(connection.socket)),
      channel_(std::move(connection.channel)),
      inner_(std::move(inner)),
      reader_(inner_.get_executor()),
      place_(std::move(place)),
      for_inside_(std::move(connection.heard)) {
  asio::error_code ignored;  // Where it fails, the first read says why.
  inner_.non_blocking(true, ignored);
}

void SecurePump::begin() {
  asio::post(outer_.get_executor(), [self = shared_from_this()] {
    self->go_on(asio::error_code(), &SecurePump::write_inside);
  });
  wait_inside();
}

void SecurePump::go_on(const asio::error_code& error, void (SecurePump::*step)()) {
  if (ended_) return;
  if (error) return end();
  try {
    (this->*step)();
  } catch (const std::bad_alloc&) {
    end();  // out of memory: only this connection ends
  }
}

void SecurePump::wait_outside() {
  outer_.async_wait(asio::ip::tcp::socket::wait_read,
                    [self = shared_from_this()](const asio::error_code& error) {
                      self->go_on(error, &SecurePump::hear_outside);
                    });
}

void SecurePump::hear_outside() {
  PumpChunk chunk;
  asio::error_code error;
  const std::size_t length = outer_.read_some(asio::buffer(chunk), error);
  if (error == asio::error::would_block) return wait_outside();
  if (error) {
    outside_is_done_ = true;
    return write_inside();
  }
  if (!channel_->hear({chunk.data(), length})) return end();
  for_inside_ += channel_->take_heard();
  for_outside_ += channel_->take_outgoing();
  if (channel_->is_finished()) outside_is_done_ = true;
  write_inside();
}

// And reads on when that is through.
void SecurePump::write_inside() {
  asio::error_code error;
  if (!for_inside_.empty()) {
    for_inside_.erase(0, inner_.write_some(asio::buffer(for_inside_), error));
  }
  if (error && error != asio::error::would_block) return end();
  if (!for_inside_.empty()) {
    return inner_.async_wait(Local::socket::wait_write,
                             [self = shared_from_this()](const asio::error_code& failed) {
                               self->go_on(failed, &SecurePump::write_inside);
                             });
  }
  if (!outside_is_done_) return wait_outside();
  inner_.shutdown(Local::socket::shutdown_send, error);  // Where that fails they are gone.
}

void SecurePump::wait_inside() {
  inner_.async_wait(Local::socket::wait_read,
                    [self = shared_from_this()](const asio::error_code& error) {
                      self->go_on(error, &SecurePump::hear_inside);
                    });
}

void SecurePump::hear_inside() {
  PumpChunk chunk;
  asio::error_code error;
  const std::size_t length = inner_.read_some(asio::buffer(chunk), error);
  if (error == asio::error::would_block) return wait_inside();
  if (error) {
    inside_is_done_ = true;
    channel_->finish();
  } else if (!channel_->say({chunk.data(), length})) {
    return end();
  }
  for_outside_ += channel_->take_outgoing();
  write_outside();
}

void SecurePump::write_outside() {
  asio::error_code error;
  if (!for_outside_.empty()) {
    for_outside_.erase(0, outer_.write_some(asio::buffer(for_outside_), error));
  }
  reader_.cancel();  // It has just read something, or there is nothing for it.
  if (error && error != asio::error::would_block) return end();
  if (!for_outside_.empty()) {
    await_reader();
    return outer_.async_wait(asio::ip::tcp::socket::wait_write,
                             [self = shared_from_this()](const asio::error_code& failed) {
                               self->go_on(failed, &SecurePump::write_outside);
                             });
  }
  inside_is_done_ ? end() : wait_inside();
}

void SecurePump::await_reader() {
  reader_.expires_after(
      std::chrono::duration_cast<asio::steady_timer::duration>(bounds::status_answer_timeout));
  reader_.async_wait([self = shared_from_this()](const asio::error_code& cancelled) {
    if (!cancelled) self->end();
  });
}

void SecurePump::end() {
  if (std::exchange(ended_, true)) return;
  reader_.cancel();
  asio::error_code ignored;  // It is over either way.
  outer_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  outer_.close(ignored);
  inner_.close(ignored);
}

}  // namespace cpprun
