// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One end of a link: a connected socket that sends and receives whole messages, used by agent and
// coordinator alike. Knows frames and limits, and nothing about what messages mean. Where there is
// a secret, what passes is enciphered: the channel for that comes along, established.
//
// A coordinator has ten thousand of them, nearly all idle: a channel holds bytes only while a frame
// is partial, or while the socket is full.

#include <asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "proto/link/message.h"
#include "proto/secure/tls.h"
#include "rendezvous/io/link_end.h"

namespace cpprun {

class LinkChannel : public LinkEnd, public std::enable_shared_from_this<LinkChannel> {
 public:
  using Callbacks = LinkCallbacks;

  // `first_bytes` were read from the socket already, and deciphered, after the peer's preamble.
  LinkChannel(asio::ip::tcp::socket socket, std::string first_bytes,
              std::unique_ptr<SecureChannel> secure = nullptr);

  // Begins to read. The callbacks are dropped when the link has ended, or with `forget`.
  void start(Callbacks callbacks);
  void listen(Callbacks callbacks) override {
    // Who speaks on it changes, and what it holds is charged as before.
    if (!callbacks.holds) callbacks.holds = std::move(callbacks_.holds);
    callbacks_ = std::move(callbacks);
  }
  bool has_ended() const { return ended_; }
  bool is_secure() const { return secure_ != nullptr; }
  void send(const link::Message& message) override;
  void send_bytes(std::string_view bytes) override;
  bool has_room() const override { return outbox_.empty() && !ended_ && !hanging_up_; }
  void hang_up(std::string reason) override;
  // At once, without what was not sent yet; the other side sees a link that was reset.
  void break_off();
  // Ends the connection for all processes that have copies of its descriptor.
  void shut_down();
  void forget() override { callbacks_ = {}; }
  // Ended, and neither side had closed it.
  bool broke() const { return broke_; }

 private:
  void wait_for_bytes();
  void read();
  void hear(std::string_view bytes);
  void say(std::string_view bytes);
  template <class Step>
  void with_memory(Step step);
  void take_in();
  std::size_t take_frame(std::string_view bytes);
  void write(std::string_view bytes);
  void write_rest();
  void send_close_notify();
  void book();
  void end(std::string reason);

  asio::ip::tcp::socket socket_;
  std::unique_ptr<SecureChannel> secure_;  // null: what passes is as it is
  Callbacks callbacks_;
  std::string inbox_;       // of a frame that has not arrived in full
  std::string outbox_;      // what the socket did not take at once, until it does
  std::size_t booked_ = 0;  // of both, as last reported
  std::string hang_up_reason_;
  bool hanging_up_ = false;
  bool ended_ = false;
  bool broke_ = false;
};

}  // namespace cpprun
