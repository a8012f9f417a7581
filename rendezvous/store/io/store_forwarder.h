// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A store that is local to each node: its port on the node (StoreForwarder), and who may use it.

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "proto/result.h"
#include "rendezvous/io/socket_owner.h"
#include "rendezvous/peer_address.h"
#include "rendezvous/store/store_streams.h"

namespace cpprun {

// The agent's half of a store that is local to each node: a port of loopback for this node's
// workers, in front of the agent's link. What workers say is forwarded as it is, and so is what
// the store answers: which requests there are, and what they mean, is the coordinator's business
// alone. With a secret no store is open on any network.
class StoreForwarder {
 public:
  struct Callbacks {
    // The link is up and takes bytes.
    std::function<bool()> has_room;
    std::function<void(std::string_view frame)> send;
    // Somebody was not let in; a clause, and who.
    std::function<void(const PeerAddress& peer, const std::string& why)> refused;
  };

  // Opens the port.
  static Result<std::unique_ptr<StoreForwarder>> open(asio::io_context& context,
                                                      Callbacks callbacks);
  ~StoreForwarder();
  StoreForwarder(const StoreForwarder&) = delete;
  StoreForwarder& operator=(const StoreForwarder&) = delete;

  int port() const { return port_; }

  // What the link brings, and what its workers say through it.
  WorkerStreams& streams() { return streams_; }

 private:
  class Worker;
  StoreForwarder(asio::io_context& context, asio::ip::tcp::acceptor acceptor, Callbacks callbacks);
  void accept();
  void let_in(asio::ip::tcp::socket socket);
  void turn_soon();

  asio::io_context& context_;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer rest_;  // where nobody could be accepted
  Callbacks callbacks_;
  int port_ = 0;
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // of what was posted
  WorkerStreams streams_;
};

// Who may use a store that is local to a node: workers of the user that started cpprun. The port is
// one of loopback, which every user of the machine reaches.

// A connection to a port of ours at loopback, as that port sees it. Fails with the reason why
// whoever began it may not.
Result<void> admit_worker(const SocketPair& pair);

}  // namespace cpprun
