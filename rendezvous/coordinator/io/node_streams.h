// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The workers of nodes as clients of their jobs' stores: those of one node (NodeStreams), and which
// link leads to which (StreamRoutes).

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "proto/clock.h"
#include "proto/ids.h"
#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/store/io/connection_set.h"
#include "rendezvous/store/ledger.h"
#include "rendezvous/store/store_log.h"
#include "rendezvous/store/store_streams.h"

namespace cpprun {

// The workers of one node as clients of their job's store: what comes for them through their
// agent's link becomes clients of a ConnectionSet. Lives for a round; the link may break and be
// begun anew meanwhile. StreamRoutes has one for each node.
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

// Which node's workers speak through which link: from the frames of agents that have a seat to the
// clients of their jobs' stores, where stores are local. Knows no socket but those of the
// ConnectionSet, which it is lent.
class StreamRoutes {
 public:
  struct Callbacks {
    std::function<std::optional<Coordinator::Seat>(LinkId)> seat_of;
    // Of the store of a job that somebody has a seat in.
    std::function<ListenerId(const std::string& job)> listener_of;
    NodeStreams::Loop loop;
    // Where what its workers say is written down; null: nowhere.
    std::function<StoreLog*(const std::string& job)> log_of = [](const auto&) { return nullptr; };
  };
  StreamRoutes(ConnectionSet& connections, Callbacks callbacks,
               std::size_t window = bounds::store_stream_window)
      : connections_(connections), callbacks_(std::move(callbacks)), window_(window) {}
  StreamRoutes(const StreamRoutes&) = delete;
  StreamRoutes& operator=(const StreamRoutes&) = delete;

  // A frame of streams has come through that link, whose other end is `peer`. A returned reason
  // ends the link.
  std::string hear(LinkId link, const PeerAddress& peer, std::string_view frame);
  // That link takes bytes again.
  void go_on(LinkId link);
  // It is gone. What was said is kept until its node has another, or the round is over.
  void forget(LinkId link) { by_link_.erase(link); }
  // The job's round is over. Its clients are closed by whoever calls this.
  void forget(const std::string& job);

  // The workers of that node of that round, who may have said nothing yet.
  std::shared_ptr<NodeStreams> of(const Coordinator::Seat& seat, const PeerAddress& peer);
  // Of every node of that job: what they say is written there from now on; null: nowhere.
  void keep_log(const std::string& job, StoreLog* log);
  void show(const std::string& job, StoreLog& log) const;

  // Of all stores, that come through links.
  std::size_t clients() const;

 private:
  ConnectionSet& connections_;
  const Callbacks callbacks_;
  const std::size_t window_;
  // Of the rounds that run, by job and seat.
  std::map<std::pair<std::string, GroupRank>, std::shared_ptr<NodeStreams>> streams_;
  std::unordered_map<LinkId, std::weak_ptr<NodeStreams>> by_link_;
};

}  // namespace cpprun
