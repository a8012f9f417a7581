// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A connection behind a secret: its beginning (SecureHandshake), and its way to a socket of this
// process (SecurePump).

#include <asio/ip/tcp.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <string>

#include "proto/result.h"
#include "proto/secure/tls.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

// The beginning of a connection on which both sides prove that they hold the same secret, and the
// first words after that: either side is done when it has heard what the other one speaks.
class SecureHandshake : public std::enable_shared_from_this<SecureHandshake> {
 public:
  // What has become of it: the connection, and what was heard on it already, deciphered.
  struct Done {
    asio::ip::tcp::socket socket;
    std::unique_ptr<SecureChannel> channel;
    std::string heard;
  };
  struct Callbacks {
    // One of them is called, once, and not from within start().
    std::function<void(Done)> done;
    std::function<void(std::string reason)> failed;  // a clause about the other side
  };

  // Those bytes were read from the socket already.
  SecureHandshake(asio::ip::tcp::socket socket, const std::shared_ptr<SecureContext>& context,
                  std::string first_bytes);

  // Says that as soon as the other side has proven itself.
  void start(std::string_view said_first, Callbacks callbacks);
  // Closes the connection. No callback is called from here on.
  void cancel();

 private:
  void wait();
  void read();
  void hear(std::string_view bytes);
  bool flush();
  void fail(std::string reason);

  asio::ip::tcp::socket socket_;
  std::unique_ptr<SecureChannel> channel_;
  std::string first_bytes_;
  std::string heard_;
  std::size_t bytes_heard_ = 0;
  Callbacks callbacks_;
};

// Forwards the plain data of an authenticated connection to a socket of this process and back, so
// that the server there needs no knowledge of secrets. Each direction holds one buffer at most: a
// side that does not read is not read from, and is disconnected after a while.
class SecurePump : public std::enable_shared_from_this<SecurePump> {
 public:
  // The other end of what it carries; it goes on until either side closes.
  // It holds `place` for as long.
  static Result<FileDescriptor> start(SecureHandshake::Done connection,
                                      std::shared_ptr<void> place);

  // For start() alone.
  SecurePump(SecureHandshake::Done connection, asio::local::stream_protocol::socket inner,
             std::shared_ptr<void> place);

 private:
  void begin();
  void go_on(const asio::error_code& error, void (SecurePump::*step)());
  void wait_outside();
  void wait_inside();
  void hear_outside();
  void hear_inside();
  void write_inside();
  void write_outside();
  void await_reader();
  void end();

  asio::ip::tcp::socket outer_;
  std::unique_ptr<SecureChannel> channel_;
  asio::local::stream_protocol::socket inner_;
  asio::steady_timer reader_;  // who does not read is not waited for
  std::shared_ptr<void> place_;
  std::string for_inside_;   // deciphered, and not taken yet
  std::string for_outside_;  // enciphered, and not taken yet
  bool outside_is_done_ = false;
  bool inside_is_done_ = false;
  bool ended_ = false;
};

}  // namespace cpprun
