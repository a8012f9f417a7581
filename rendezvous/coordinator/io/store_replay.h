// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One job's store as another process has it, or had it: what that one has written down (StoreLog)
// is read here, and the same sessions, streams and values come into being. Until end() nothing is
// decided here and no link leads to it; from then on it is a store like any other, and its nodes
// find in it what they were last told of.

#include <string>
#include <string_view>
#include <unordered_map>

#include "proto/result.h"
#include "rendezvous/coordinator/io/stream_routes.h"
#include "rendezvous/store/store_log.h"

namespace cpprun {

class StoreReplay {
 public:
  struct Place {
    ConnectionSet& connections;
    StreamRoutes& routes;
    ListenerId listener;  // that the job's clients come through here
    Store& store;         // which is empty, and the listener's
    std::string job;
    RoundNumber round;
  };
  explicit StoreReplay(Place place);
  StoreReplay(const StoreReplay&) = delete;
  StoreReplay& operator=(const StoreReplay&) = delete;

  // A piece of the log, cut anywhere. An error: it does not lead anywhere, and what came of it is
  // of no use.
  Result<void> hear(std::string_view bytes);
  // It has ended between two records.
  bool is_whole() const { return reader_.left() == 0; }
  // It is decided here from now on.
  void end();
  // Whoever goes on with the same log calls its clients what they are called here.
  void rename(StoreLog& log) const;

 private:
  // A client of the writer's, here.
  struct Client {
    ConnectionId id;
    GroupRank node;
    StreamId stream;
  };
  Result<void> go_on(StoreSessions& sessions, bool& has_more);
  Result<void> on(StoreSessions& sessions, StoreRecord record);
  Result<void> on_client(StoreSessions& sessions, const StoreRecord& record);
  Result<void> open(const StoreRecord& record);
  NodeStreams* streams_of(GroupRank node);

  const Place place_;
  StoreLogReader reader_;
  std::unordered_map<ConnectionId, Client> clients_;  // by what the writer calls them
  std::unordered_map<ConnectionId, Client> renamed_;  // and will call them, as far as it has said
  std::unordered_map<GroupRank, std::shared_ptr<NodeStreams>> nodes_;
};

}  // namespace cpprun
