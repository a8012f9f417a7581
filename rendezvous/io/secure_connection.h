// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How a connection behind a secret begins.

#include <asio/ip/tcp.hpp>

#include <functional>
#include <memory>
#include <string>

#include "proto/secure/tls.h"

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

}  // namespace cpprun
