// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/link_channel.h"

#include <fmt/format.h>

#include <array>
#include <asio/post.hpp>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>

#include "proto/link/binary_frame.h"
#include "proto/link/codec.h"
#include "rendezvous/bounds.h"

namespace cpprun {

LinkChannel::LinkChannel(asio::ip::tcp::socket socket, std::string first_bytes,
                         std::unique_ptr<SecureChannel> secure)
    : socket_(std::move(socket)), secure_(std::move(secure)), inbox_(std::move(first_bytes)) {
  asio::error_code ignored;  // Options are a courtesy; a link works without them.
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  socket_.non_blocking(true, ignored);  // Where that fails the first read says why.
}

void LinkChannel::start(Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  // What has arrived with the greeting is worked off like everything else: from the event loop.
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->take_in(); });
}

void LinkChannel::wait_for_bytes() {
  socket_.async_wait(asio::ip::tcp::socket::wait_read,
                     [self = shared_from_this()](const asio::error_code& error) {
                       if (self->ended_) return;
                       if (error) {
                         self->end(error.message());
                       } else {
                         self->read();
                       }
                     });
}

void LinkChannel::read() {
  std::array<char, bounds::link_read_bytes> chunk;
  asio::error_code error;
  const std::size_t length = socket_.read_some(asio::buffer(chunk), error);
  if (error == asio::error::would_block) {
    wait_for_bytes();
  } else if (error) {
    broke_ = error != asio::error::eof;
    end(error == asio::error::eof ? "connection closed by the peer" : error.message());
  } else {
    hear({chunk.data(), length});
  }
}

void LinkChannel::hear(std::string_view bytes) {
  bool goes_on = true;
  with_memory([&] {
    if (!secure_) return void(inbox_.append(bytes));
    goes_on = secure_->hear(bytes);
    inbox_.append(secure_->take_heard());
  });
  if (ended_) return;
  if (!secure_) return take_in();
  // Rare: the peer has requested fresh keys, or receives the reason of a failure.
  if (const std::string answer = secure_->take_outgoing(); !answer.empty()) write(answer);
  if (ended_) return;
  if (!goes_on) {
    broke_ = true;
    return end(secure_->reason());
  }
  const bool is_last = secure_->is_finished();
  take_in();
  if (is_last) end("connection closed by the peer");
}

void LinkChannel::take_in() {
  std::size_t consumed = 0;
  while (!ended_ && !hanging_up_) {
    const std::size_t taken = take_frame(std::string_view{inbox_}.substr(consumed));
    if (taken == 0) break;
    consumed += taken;
  }
  if (ended_) return;
  inbox_.erase(0, consumed);
  // After a hang-up nothing is processed except the peer's closing.
  if (hanging_up_) inbox_.clear();
  // An idle link keeps no memory, and one with a torn message little more than that.
  if (inbox_.empty()) inbox_ = {};
  if (inbox_.capacity() > 2 * inbox_.size()) inbox_.shrink_to_fit();
  book();
  if (!ended_) wait_for_bytes();
}

// Returns the size of the frame. 0: it is incomplete, or has ended the link.
std::size_t LinkChannel::take_frame(std::string_view bytes) {
  const auto first = link::first_frame(bytes);
  if (!first) {
    end(first.error().reason);
    return 0;
  }
  if (!*first) return 0;
  if (link::carries_streams(**first) || link::is_standby_frame(**first)) {
    std::string objection =
        callbacks_.streams ? callbacks_.streams(**first) : "unexpected stream data";
    if (!objection.empty()) end(std::move(objection));
    return ended_ ? 0 : sizeof(std::uint32_t) + (*first)->size();
  }
  auto decoded = link::decode(bytes);
  if (!decoded) {
    end(decoded.error().reason);
    return 0;
  }
  if (!*decoded) return 0;
  const std::size_t consumed = (*decoded)->bytes_consumed;
  if (callbacks_.message) callbacks_.message(std::move((*decoded)->message));
  return consumed;
}

void LinkChannel::send(const link::Message& message) {
  with_memory([&] { say(link::encode(message)); });
}

void LinkChannel::send_bytes(std::string_view bytes) {
  with_memory([&] { say(bytes); });
}

void LinkChannel::say(std::string_view bytes) {
  if (ended_ || hanging_up_) return;
  if (!secure_) return write(bytes);
  if (!secure_->say(bytes)) return end(secure_->reason());
  write(secure_->take_outgoing());
}

// Out of memory ends only this link: its agent may come back.
template <class Step>
void LinkChannel::with_memory(Step step) {
  try {
    step();
  } catch (const std::bad_alloc&) {
    broke_ = true;
    end("out of memory");
  }
}

void LinkChannel::write(std::string_view bytes) {
  if (outbox_.empty()) {
    // Nearly always the socket takes all of it now, and nothing is to be kept or waited for.
    asio::error_code error;
    const std::size_t sent = socket_.write_some(asio::buffer(bytes), error);
    if (error && error != asio::error::would_block) {
      end(error.message());
      return;
    }
    bytes.remove_prefix(sent);
    if (bytes.empty()) return;
  }
  if (outbox_.size() + bytes.size() > bounds::link_outbox_bytes_max) {
    end(fmt::format("the peer does not read: more than {} bytes are queued",
                    bounds::link_outbox_bytes_max));
    return;
  }
  const bool is_first = outbox_.empty();
  outbox_.append(bytes);
  book();
  if (is_first && !ended_) write_rest();
}

void LinkChannel::write_rest() {
  socket_.async_wait(asio::ip::tcp::socket::wait_write,
                     [self = shared_from_this()](asio::error_code error) {
                       if (self->ended_) return;
                       std::string& rest = self->outbox_;
                       if (!error) {
                         rest.erase(0, self->socket_.write_some(asio::buffer(rest), error));
                         self->book();
                       }
                       if (self->ended_) return;
                       if (error && error != asio::error::would_block) {
                         self->end(error.message());
                       } else if (!rest.empty()) {
                         self->write_rest();
                       } else if (self->hanging_up_) {
                         self->end(self->hang_up_reason_);
                       } else {
                         rest = {};
                         if (self->callbacks_.room) self->callbacks_.room();
                       }
                     });
}

void LinkChannel::book() {
  const auto held_by = [](const std::string& text) { return text.empty() ? 0 : text.capacity(); };
  const std::size_t held =
      held_by(inbox_) + held_by(outbox_) + (secure_ ? secure_->bytes_held() : 0);
  if (ended_ || held == std::exchange(booked_, held) || !callbacks_.holds) return;
  if (std::string objection = callbacks_.holds(held); !objection.empty()) {
    broke_ = true;
    end(std::move(objection));
  }
}

void LinkChannel::hang_up(std::string reason) {
  if (ended_ || hanging_up_) return;
  hanging_up_ = true;
  hang_up_reason_ = std::move(reason);
  if (outbox_.empty()) end(hang_up_reason_);
}

void LinkChannel::shut_down() {
  asio::error_code ignored;  // Else the peer has closed it.
  socket_.shutdown(asio::socket_base::shutdown_both, ignored);
}

void LinkChannel::break_off() {
  if (ended_) return;
  broke_ = true;
  asio::error_code ignored;  // Else it is closed.
  socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  socket_.close(ignored);
  end("connection aborted");
}

// Tells the peer that nothing was cut off. Skipped if the socket is full.
void LinkChannel::send_close_notify() {
  if (!secure_ || !outbox_.empty()) return;
  secure_->finish();
  asio::error_code ignored;
  (void)socket_.write_some(asio::buffer(secure_->take_outgoing()), ignored);
}

void LinkChannel::end(std::string reason) {
  if (ended_) return;
  ended_ = true;
  send_close_notify();
  asio::error_code ignored;  // It is over either way.
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
  asio::post(socket_.get_executor(), [self = shared_from_this(), reason = std::move(reason)] {
    const auto callbacks = std::exchange(self->callbacks_, {});
    if (callbacks.closed) callbacks.closed(reason);
  });
}

}  // namespace cpprun
