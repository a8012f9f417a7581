// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Which node's workers speak through which link: from the frames of agents that have a seat to the
// clients of their jobs' stores, where stores are local. Knows no socket but those of the
// ConnectionSet, which it is lent.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/coordinator/io/node_streams.h"

namespace cpprun {

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
