// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Carries what passes on a connection behind the secret to a socket of this process and back, so
// that whoever serves there needs to know nothing of secrets. Neither way holds more than a
// buffer's worth: who does not read is not read from, and is given up after a while.

#include <asio/ip/tcp.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/steady_timer.hpp>
#include <memory>
#include <string>

#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/secure_handshake.h"

namespace cpprun {

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
