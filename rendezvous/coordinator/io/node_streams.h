// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The workers of one node as clients of their job's store: what comes for them through their
// agent's link becomes clients of a ConnectionSet. Lives for a round; the link may break and be
// begun anew meanwhile.

#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "rendezvous/coordinator/io/link_books.h"
#include "rendezvous/io/link_channel.h"
#include "rendezvous/store/io/connection_set.h"
#include "rendezvous/store/store_streams.h"

namespace cpprun {

class NodeStreams : public std::enable_shared_from_this<NodeStreams> {
 public:
  struct Place {
    ConnectionSet& connections;
    ListenerId listener;
    PeerAddress peer;  // the node's, in whose books it is
  };
  NodeStreams(asio::io_context& context, RoundNumber round, const Place& place);
  NodeStreams(const NodeStreams&) = delete;
  NodeStreams& operator=(const NodeStreams&) = delete;

  RoundNumber round() const { return streams_.round(); }
  // A frame of its agent's has come through that link. A returned reason ends the link.
  std::string hear(const std::shared_ptr<LinkChannel>& link, link::StreamFrameReader& records);
  // The link takes bytes again.
  void go_on();

 private:
  class Client;

  void look_at_changes();
  void open(StreamId stream);
  void forget(StreamId stream);
  void settle_books();
  void send_soon();
  void send();
  void send_some();

  asio::io_context& context_;
  Place place_;
  LinkBooks books_;
  StoreStreams streams_;
  std::weak_ptr<LinkChannel> link_;
  std::unordered_map<StreamId, std::shared_ptr<Client>> clients_;
  bool is_sending_soon_ = false;
};

}  // namespace cpprun
