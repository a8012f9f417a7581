// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One end of a link: a connected socket that sends and receives whole messages, used by agent and
// coordinator alike. Knows frames and limits, and nothing about what messages mean. Where there is
// a secret, what passes is enciphered: the channel for that comes along, established.
//
// A coordinator has ten thousand of them, nearly all idle: a channel holds bytes only while a frame
// is partial, or while the socket takes no more.

#include <asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "proto/link/message.h"
#include "proto/secure/secure_channel.h"

namespace cpprun {

class LinkChannel : public std::enable_shared_from_this<LinkChannel> {
 public:
  struct Callbacks {
    std::function<void(link::Message)> message;
    // The same for frames that are no messages (stream_frame.h, standby_frame.h), without their
    // lengths. A returned reason ends the link; empty: they may. Where it is not given, they may
    // not.
    std::function<std::string(std::string_view frame)> streams = {};
    // Everything said has left, after the socket had taken less than all: has_room() again.
    std::function<void()> room = {};
    // Called with the number of bytes that wait in either direction, whenever it changes. A
    // returned reason ends the link; empty: they may.
    std::function<std::string(std::size_t bytes)> holds = {};
    // Called once, when the link has ended, whoever ended it. Never from inside a call of ours.
    std::function<void(std::string reason)> closed;
  };

  // `first_bytes` were read from the socket already, and deciphered, after the peer's preamble.
  LinkChannel(asio::ip::tcp::socket socket, std::string first_bytes,
              std::unique_ptr<SecureChannel> secure = nullptr);

  // Begins to read. The callbacks are dropped when the link has ended, or with `forget`.
  void start(Callbacks callbacks);
  // Of a link that has started: somebody else listens from now on. Not from within a callback.
  void listen(Callbacks callbacks) { callbacks_ = std::move(callbacks); }
  bool has_ended() const { return ended_; }
  void send(const link::Message& message);
  void send_bytes(std::string_view bytes);
  // Nothing waits for the socket: what can be said later had better be said now.
  bool has_room() const { return outbox_.empty() && !ended_ && !hanging_up_; }
  // Ends the link once everything said has left.
  void hang_up(std::string reason);
  // Nobody listens any more: no callback is called from here on.
  void forget() { callbacks_ = {}; }
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
  void say_farewell();
  void book();
  void end(std::string reason);

  asio::ip::tcp::socket socket_;
  std::unique_ptr<SecureChannel> secure_;  // null: what passes is as it is
  Callbacks callbacks_;
  std::string inbox_;       // of a frame that has not arrived in full
  std::string outbox_;      // what the socket did not take at once; somebody waits until it does
  std::size_t booked_ = 0;  // of both, as it was told
  std::string hang_up_reason_;
  bool hanging_up_ = false;
  bool ended_ = false;
  bool broke_ = false;
};

}  // namespace cpprun
