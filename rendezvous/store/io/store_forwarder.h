// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A store that is local to each node: its port on the node (StoreForwarder), and access to it.

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/rank.h"
#include "proto/result.h"
#include "rendezvous/io/socket_address.h"
#include "rendezvous/peer_address.h"
#include "rendezvous/store/store_streams.h"

namespace cpprun {

// The agent's half of a store that is local to each node: a loopback port for this node's workers,
// in front of the agent's link. Requests and replies are forwarded unchanged; only the coordinator
// interprets them. With a secret, no store is open on any network.
class StoreForwarder {
 public:
  struct Callbacks {
    // The link is up and has room.
    std::function<bool()> has_room;
    std::function<void(std::string_view frame)> send;
    // A connection was rejected: its address, and the reason as a clause.
    std::function<void(const PeerAddress& peer, const std::string& why)> refused;
  };

  // Opens the port.
  static Result<std::unique_ptr<StoreForwarder>> open(asio::io_context& context,
                                                      Callbacks callbacks);
  ~StoreForwarder();
  StoreForwarder(const StoreForwarder&) = delete;
  StoreForwarder& operator=(const StoreForwarder&) = delete;

  // The port and the workers' connections stay when another program is executed in this process:
  // what it needs.
  struct Carried {
    struct Stream {
      StreamId stream{};
      int socket = -1;  // -1: the worker has left
      std::uint64_t taken_here = 0;
      std::uint64_t taken_there = 0;
      bool is_closed = false;
      bool is_known_there = false;
      std::string outgoing = {};
      friend bool operator==(const Stream&, const Stream&) = default;
    };
    int port = -1;  // listens
    RoundNumber round{};
    StreamId newest{};
    std::vector<Stream> streams = {};
    friend bool operator==(const Carried&, const Carried&) = default;
  };
  // What has come through the link and no worker has taken is not part of it: it is sent again on
  // the next link.
  Carried carried() const;
  // Continues from there, with the same port, until the next begin_link().
  static Result<std::unique_ptr<StoreForwarder>> resume(asio::io_context& context,
                                                        const Carried& carried,
                                                        Callbacks callbacks);

  int port() const { return port_; }

  // What comes through the link, and what workers send through it.
  WorkerStreams& streams() { return streams_; }

 private:
  class Worker;
  StoreForwarder(asio::io_context& context, asio::ip::tcp::acceptor acceptor, Callbacks callbacks);
  void accept();
  void let_in(asio::ip::tcp::socket socket);
  void turn_soon();

  asio::io_context& context_;
  mutable asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer rest_;  // after a failed accept
  Callbacks callbacks_;
  int port_ = 0;
  // Expires with this object; posted handlers check it.
  std::shared_ptr<char> alive_ = std::make_shared<char>();
  WorkerStreams streams_;
};

// Access to a store that is local to a node: only for workers of the user that started cpprun. Its
// port is on loopback, which every user of the machine can reach.

// Checks a connection to a loopback port of ours, as that port sees it. Fails with the reason why
// its owner may not use it.
Result<void> admit_worker(const SocketPair& pair);

}  // namespace cpprun
