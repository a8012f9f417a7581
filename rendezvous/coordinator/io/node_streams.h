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
#include "rendezvous/store/io/connection_set.h"
#include "rendezvous/store/ledger.h"
#include "rendezvous/store/store_log.h"
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
    PeerAddress peer;         // the node's, in whose books it is
    GroupRank node{};         // which that is
    StoreLog* log = nullptr;  // what they say and take is written there; it outlives this
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
  // It is written there from now on; null: nowhere.
  void keep_log(StoreLog* log);

  // --- what another process has written down (StoreReplay) ---
  void begin_replay() { streams_.begin_replay(); }
  void end_replay() { streams_.end_replay(); }
  // That stream's client here; an error: there is no room for it.
  Result<ConnectionId> replay_open(StreamId stream);
  void replay(const StoreRecord& record);

  // All its streams, for an image, and who is the client of each.
  void show(StoreLog& log) const;

 private:
  class Client;
  // Tells the log which node it is of.
  struct NodeJournal : StoreStreams::Journal {
    explicit NodeJournal(const Place& of) : place(of) {}
    void taken(StreamId stream, std::uint64_t up_to) noexcept override;
    void over(StreamId stream) noexcept override;
    const Place& place;
  };

  void look_at_changes();
  void open(StreamId stream);
  Result<ConnectionId> begin(StreamId stream);
  void write_opened(StoreLog& log, ConnectionId client, StreamId stream) const;
  void forget(StreamId stream);
  void settle_books();
  void send_soon();
  void send();
  void send_some();

  const Loop& loop_;
  Place place_;
  NodeJournal journal_{place_};
  PeerMemory books_;
  StoreStreams streams_;
  std::optional<LinkId> link_;  // the last that a frame has come through
  std::unordered_map<StreamId, std::shared_ptr<Client>> clients_;
  bool is_sending_soon_ = false;
};

}  // namespace cpprun
