// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/io/store_replay.h"

#include <fmt/format.h>

#include <utility>

#include "rendezvous/store/store_sessions.h"

namespace cpprun {

namespace {

using Kind = StoreRecord::Kind;

tl::unexpected<Error> unknown_client(const StoreRecord& record) {
  return failure(fmt::format("a record of kind {} of client {}, whom nobody has opened",
                             static_cast<int>(record.kind), record.client.value));
}

}  // namespace

StoreReplay::StoreReplay(Place place) : place_(std::move(place)) {
  place_.store.take_all(true);
  place_.connections.with_sessions([this](StoreSessions& sessions) {
    sessions.begin_replay(place_.listener.value);
    sessions.adopt(place_.store);
  });
}

Result<void> StoreReplay::hear(std::string_view bytes) {
  bool has_more = true;
  Result<void> heard;
  while (has_more && heard) {
    const bool is_done = place_.connections.with_sessions([&](StoreSessions& sessions) {
      reader_.hear(std::exchange(bytes, {}));
      heard = go_on(sessions, has_more);
    });
    if (!is_done) return failure("there is no memory for it");
  }
  return heard;
}

// As far as somebody is told something: that is said before it can be taken, and before whoever is
// told is gone.
Result<void> StoreReplay::go_on(StoreSessions& sessions, bool& has_more) {
  bool has_told = false;
  while (true) {
    if (has_told && (reader_.comes(Kind::taken) || reader_.comes(Kind::closed))) return {};
    const auto record = reader_.next();
    if (!record) return tl::unexpected<Error>(record.error());
    has_more = record->has_value();
    if (!has_more) return {};
    const Kind kind = (*record)->kind;
    has_told = has_told || (kind != Kind::taken && kind != Kind::read);
    if (const Result<void> heard = on(sessions, **record); !heard) return heard;
  }
}

void StoreReplay::end() {
  place_.store.take_all(false);
  for (const auto& [node, streams] : nodes_) streams->end_replay();
  place_.connections.with_sessions(
      [this](StoreSessions& sessions) { sessions.end_replay(place_.listener.value); });
}

void StoreReplay::rename(StoreLog& log) const {
  std::size_t left = clients_.size();
  for (const auto& [old_name, client] : clients_) {
    log.add({.kind = Kind::renamed,
             .client = old_name,
             .place = client.id.value,
             .count = --left == 0 ? 1U : 0U});
  }
}

NodeStreams* StoreReplay::streams_of(GroupRank node) {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? nullptr : found->second.get();
}

Result<void> StoreReplay::on(StoreSessions& sessions, StoreRecord record) {
  switch (record.kind) {
    case Kind::opened:
    case Kind::numbered:
      return open(record);
    case Kind::value:
      place_.store.put_value(record.key, record.bytes);
      return {};
    case Kind::queued:
      place_.store.put_queued(record.key, record.bytes);
      return {};
    case Kind::taken:
    case Kind::over:
    case Kind::stream:
      if (NodeStreams* const streams = streams_of(record.node)) streams->replay(record);
      return {};
    case Kind::read:
    case Kind::decided:
    case Kind::listed:
    case Kind::abandoned:
    case Kind::closed:
    case Kind::renamed:
    case Kind::waits:
    case Kind::watches:
    case Kind::owed:
    case Kind::session:
      return on_client(sessions, record);
  }
  return failure("a record of no kind");
}

Result<void> StoreReplay::open(const StoreRecord& record) {
  const auto peer = peer_of(record.key);
  if (!peer) return failure("a record with an address that is none");
  auto& streams = nodes_[record.node];
  if (streams == nullptr) {
    streams = place_.routes.of({place_.job, place_.round, record.node}, *peer);
    streams->begin_replay();
  }
  if (record.kind == Kind::numbered) {
    streams->replay(record);
    return {};
  }
  const auto id = streams->replay_open(record.stream);
  if (!id) return tl::unexpected<Error>(id.error());
  clients_[record.client] = {*id, record.node, record.stream};
  return {};
}

Result<void> StoreReplay::on_client(StoreSessions& sessions, const StoreRecord& record) {
  const auto found = clients_.find(record.client);
  if (found == clients_.end()) {
    // One of a round before: its end is told when there is time for it.
    if (record.kind == Kind::closed) return {};
    return unknown_client(record);
  }
  const Client client = found->second;
  const auto must = [&record](bool is_right) -> Result<void> {
    if (is_right) return {};
    return failure(fmt::format("a record of kind {} that does not follow from those before it",
                               static_cast<int>(record.kind)));
  };
  StoreRecord of_stream = record;
  of_stream.node = client.node;
  of_stream.stream = client.stream;
  switch (record.kind) {
    case Kind::read:
      sessions.replay_read(client.id, record.bytes);
      if (NodeStreams* const streams = streams_of(client.node)) streams->replay(of_stream);
      return {};
    case Kind::decided:
      return must(sessions.replay_decided(client.id, record.count));
    case Kind::listed:
      return must(sessions.replay_listed(client.id, record.count, record.bytes));
    case Kind::abandoned:
      sessions.replay_abandoned(client.id);
      return {};
    case Kind::closed:
      clients_.erase(found);
      sessions.close(client.id, "it was closed there", true);
      return {};
    case Kind::renamed:
      renamed_[ConnectionId{record.place}] = client;
      if (record.count != 0) clients_ = std::exchange(renamed_, {});
      return {};
    case Kind::waits:
      place_.store.put_waiting(client.id, record.key, record.count != 0);
      return {};
    case Kind::watches:
      place_.store.put_watching(client.id, record.key);
      return {};
    case Kind::owed:
      place_.store.put_owed(client.id, record.key);
      return {};
    case Kind::session:
      sessions.restore(client.id, record.flags, record.key, record.bytes);
      return {};
    case Kind::opened:
    case Kind::taken:
    case Kind::over:
    case Kind::value:
    case Kind::queued:
    case Kind::stream:
    case Kind::numbered:
      break;
  }
  return must(false);
}

}  // namespace cpprun
