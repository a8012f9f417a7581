// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The agent's half of a store that is local to each node: a port of loopback for this node's
// workers, in front of the agent's link. What workers say is forwarded as it is, and so is what
// the store answers: which requests there are, and what they mean, is the coordinator's business
// alone. With a secret no store is open on any network.

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "proto/result.h"
#include "rendezvous/peer_address.h"
#include "rendezvous/store/store_streams.h"

namespace cpprun {

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

  // A round begins: every connection of the one before is closed.
  void begin_round(RoundNumber round);
  // The link is another one, on which the agent has its seat.
  void begin_link();
  // A frame of the coordinator's. A returned reason ends the link.
  std::string hear(std::string_view frame);
  // The link takes bytes again.
  void go_on() { send(); }

 private:
  class Worker;
  StoreForwarder(asio::io_context& context, asio::ip::tcp::acceptor acceptor, Callbacks callbacks);
  void accept();
  void let_in(asio::ip::tcp::socket socket);
  void look_at_changes();
  void spoke(StreamId worker);
  void send_soon();
  void send();
  void close_all();

  asio::io_context& context_;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer rest_;  // where nobody could be accepted
  Callbacks callbacks_;
  int port_ = 0;
  std::optional<StoreStreams> streams_;  // of the round that runs
  std::unordered_map<StreamId, std::shared_ptr<Worker>> workers_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // of what was posted
  bool is_sending_soon_ = false;
  StreamId spoke_last_{};       // of the workers
  bool several_speak_ = false;  // at the same time, as far as the last turn shows
};

}  // namespace cpprun
