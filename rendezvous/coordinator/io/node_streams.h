// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The workers of nodes as clients of their jobs' stores: the workers of one node (NodeStreams), and
// the mapping from links to nodes (StreamRoutes).

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "proto/clock.h"
#include "proto/rank.h"
#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/store/bounds.h"
#include "rendezvous/store/io/connection_set.h"
#include "rendezvous/store/memory_accounting.h"
#include "rendezvous/store/store_log.h"
#include "rendezvous/store/store_streams.h"

namespace cpprun {

// The workers of one node as clients of their job's store. It turns what arrives for them through
// their agent's link into clients of a ConnectionSet. It lives for one round; the link may break
// and be replaced in the meantime. StreamRoutes has one for each node.
class NodeStreams : public std::enable_shared_from_this<NodeStreams> {
 public:
  // The links, the event loop and the clock.
  struct Loop {
    // The link is up and accepts bytes.
    std::function<bool(LinkId)> has_room;
    std::function<void(LinkId, std::string_view frame)> send;
    // Calls the function after everything that has arrived was processed.
    std::function<void(std::function<void()>)> soon;
    std::function<TimePoint()> now;
  };
  struct Context {
    ConnectionSet& connections;
    ListenerId listener;
    PeerAddress peer;         // the node's, for memory accounting
    GroupRank node{};         // the node's rank
    StoreLog* log = nullptr;  // logs what its workers send and receive; outlives this
  };
  // `loop` outlives this object.
  NodeStreams(const Loop& loop, RoundNumber round, const Context& place, std::size_t window);
  NodeStreams(const NodeStreams&) = delete;
  NodeStreams& operator=(const NodeStreams&) = delete;

  RoundNumber round() const { return streams_.round(); }
  // The number of its store clients.
  std::size_t clients() const { return clients_.size(); }
  // Processes a frame of its agent that came through this link. If a reason is returned, the link
  // is closed.
  std::string hear(LinkId link, link::StreamFrameReader& records);
  // The link accepts bytes again.
  void go_on();
  // Logs to `log` from now on; null: no log.
  void keep_log(StoreLog* log);

  // --- replay of another process's log (StoreReplay) ---
  void begin_replay() { streams_.begin_replay(); }
  void end_replay() { streams_.end_replay(); }
  // Opens the stream's client here. Fails if there is no room for it.
  Result<ConnectionId> replay_open(StreamId stream);
  void replay(const StoreRecord& record);

  // Writes all its streams and their clients to `log`, for an image.
  void show(StoreLog& log) const;

 private:
  class Client;
  // Adds the node's rank to log entries.
  struct NodeJournal : StoreStreams::Journal {
    explicit NodeJournal(const Context& of) : place(of) {}
    void taken(StreamId stream, std::uint64_t up_to) noexcept override;
    void over(StreamId stream) noexcept override;
    const Context& place;
  };

  void look_at_changes();
  void open(StreamId stream);
  Result<ConnectionId> begin(StreamId stream);
  void write_opened(StoreLog& log, ConnectionId client, StreamId stream) const;
  void forget(StreamId stream);
  void update_accounts();
  void send_soon();
  void send();
  void send_some();

  const Loop& loop_;
  Context place_;
  NodeJournal journal_{place_};
  PeerMemory books_;
  StoreStreams streams_;
  std::optional<LinkId> link_;  // the link of the latest frame
  std::unordered_map<StreamId, std::shared_ptr<Client>> clients_;
  bool is_sending_soon_ = false;
};

// Maps links to nodes: passes the frames of agents that have a seat to the clients of their jobs'
// stores, when stores are local. The only sockets it uses are those of the ConnectionSet that it
// borrows.
class StreamRoutes {
 public:
  struct Callbacks {
    std::function<std::optional<Coordinator::Seat>(LinkId)> seat_of;
    // The listener of the store of a job in which a node has a seat.
    std::function<ListenerId(const std::string& job)> listener_of;
    NodeStreams::Loop loop;
    // The log for what the job's workers send; null: none.
    std::function<StoreLog*(const std::string& job)> log_of = [](const auto&) { return nullptr; };
  };
  StreamRoutes(ConnectionSet& connections, Callbacks callbacks,
               std::size_t window = bounds::store_stream_window)
      : connections_(connections), callbacks_(std::move(callbacks)), window_(window) {}
  StreamRoutes(const StreamRoutes&) = delete;
  StreamRoutes& operator=(const StreamRoutes&) = delete;

  // Processes a frame of streams that came through this link from `peer`. If a reason is returned,
  // the link is closed.
  std::string hear(LinkId link, const PeerAddress& peer, std::string_view frame);
  // The link accepts bytes again.
  void go_on(LinkId link);
  // The link is gone. Its streams are kept until its node has a new link, or until the round is
  // over.
  void forget(LinkId link) { by_link_.erase(link); }
  // The job's round is over. The caller has to close its clients.
  void forget(const std::string& job);

  // The streams of the node in this seat, created if needed.
  std::shared_ptr<NodeStreams> of(const Coordinator::Seat& seat, const PeerAddress& peer);
  // Logs all nodes of the job to `log` from now on; null: no log.
  void keep_log(const std::string& job, StoreLog* log);
  void show(const std::string& job, StoreLog& log) const;

  // The number of clients that come through links, of all stores.
  std::size_t clients() const;

 private:
  ConnectionSet& connections_;
  const Callbacks callbacks_;
  const std::size_t window_;
  // Of the current rounds, by job and seat.
  std::map<std::pair<std::string, GroupRank>, std::shared_ptr<NodeStreams>> streams_;
  std::unordered_map<LinkId, std::weak_ptr<NodeStreams>> by_link_;
};

}  // namespace cpprun
