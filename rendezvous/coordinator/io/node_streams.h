// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The workers of one node as clients of their job's store: what comes for them through their
// agent's link becomes clients of a ConnectionSet. Lives for a round; the link may break and be
// begun anew meanwhile. StreamRoutes has one for each node.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "proto/clock.h"
#include "proto/ids.h"
#include "rendezvous/coordinator/io/link_books.h"
#include "rendezvous/store/io/connection_set.h"
#include "rendezvous/store/store_streams.h"

namespace cpprun {

class NodeStreams : public std::enable_shared_from_this<NodeStreams> {
 public:
  // Who has the links, the loop and the clock.
  struct Loop {
    // That link is up and takes bytes.
    std::function<bool(LinkId)> has_room;
    std::function<void(LinkId, std::string_view frame)> send;
    // To be called when everything that has come was looked at.
    std::function<void(std::function<void()>)> soon;
    std::function<TimePoint()> now;
  };
  struct Place {
    ConnectionSet& connections;
    ListenerId listener;
    PeerAddress peer;  // the node's, in whose books it is
  };
  // `loop` outlives it.
  NodeStreams(const Loop& loop, RoundNumber round, const Place& place, std::size_t window);
  NodeStreams(const NodeStreams&) = delete;
  NodeStreams& operator=(const NodeStreams&) = delete;

  RoundNumber round() const { return streams_.round(); }
  // Of the store, that are here.
  std::size_t clients() const { return clients_.size(); }
  // A frame of its agent's has come through that link. A returned reason ends the link.
  std::string hear(LinkId link, link::StreamFrameReader& records);
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

  const Loop& loop_;
  Place place_;
  LinkBooks books_;
  StoreStreams streams_;
  std::optional<LinkId> link_;  // the last that a frame has come through
  std::unordered_map<StreamId, std::shared_ptr<Client>> clients_;
  bool is_sending_soon_ = false;
};

}  // namespace cpprun
