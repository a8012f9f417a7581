#include "rendezvous/io/link_channel.h"

#include <fmt/format.h>

#include <asio/post.hpp>
#include <asio/write.hpp>
#include <optional>
#include <utility>

#include "proto/bounds.h"
#include "proto/link/codec.h"

namespace cpprun {

LinkChannel::LinkChannel(asio::ip::tcp::socket socket, std::string first_bytes)
    : socket_(std::move(socket)), inbox_(std::move(first_bytes)) {
  asio::error_code ignored;  // Options are a courtesy; a link works without them.
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
}

void LinkChannel::start(Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  // What has arrived with the greeting is worked off like everything else: from the event loop.
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->take_in(); });
}

void LinkChannel::read() {
  socket_.async_read_some(
      asio::buffer(chunk_),
      [self = shared_from_this()](const asio::error_code& error, std::size_t length) {
        if (error) {
          self->end(error == asio::error::eof ? "the other side closed it" : error.message());
          return;
        }
        self->inbox_.append(self->chunk_.data(), length);
        self->take_in();
      });
}

void LinkChannel::take_in() {
  std::size_t consumed = 0;
  while (!ended_ && !hanging_up_) {
    auto decoded = link::decode(std::string_view{inbox_}.substr(consumed));
    if (!decoded) {
      end(decoded.error().reason);
      return;
    }
    std::optional<link::Decoded>& frame = *decoded;
    if (!frame) break;
    consumed += frame->bytes_consumed;
    if (callbacks_.message) callbacks_.message(std::move(frame->message));
  }
  inbox_.erase(0, consumed);
  // After a hang-up nothing is heard any more, but the other side's closing still is.
  if (hanging_up_) inbox_.clear();
  if (!ended_) read();
}

void LinkChannel::send(const link::Message& message) {
  send_bytes(link::encode(message));
}

void LinkChannel::send_bytes(std::string_view bytes) {
  if (ended_ || hanging_up_) return;
  if (outbox_.size() + bytes.size() > bounds::link_outbox_bytes_max) {
    end(fmt::format("it does not read: more than {} bytes wait for it",
                    bounds::link_outbox_bytes_max));
    return;
  }
  outbox_.append(bytes);
  if (sending_.empty()) write();
}

void LinkChannel::write() {
  sending_ = std::exchange(outbox_, {});
  asio::async_write(socket_, asio::buffer(sending_),
                    [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                      self->sending_.clear();
                      if (error) {
                        self->end(error.message());
                      } else if (!self->outbox_.empty()) {
                        self->write();
                      } else if (self->hanging_up_) {
                        self->end(self->hang_up_reason_);
                      }
                    });
}

void LinkChannel::hang_up(std::string reason) {
  if (ended_ || hanging_up_) return;
  hanging_up_ = true;
  hang_up_reason_ = std::move(reason);
  if (sending_.empty()) end(hang_up_reason_);
}

void LinkChannel::end(std::string reason) {
  if (ended_) return;
  ended_ = true;
  asio::error_code ignored;  // It is over either way.
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
  asio::post(socket_.get_executor(), [self = shared_from_this(), reason = std::move(reason)] {
    const auto callbacks = std::exchange(self->callbacks_, {});
    if (callbacks.closed) callbacks.closed(reason);
  });
}

}  // namespace cpprun
