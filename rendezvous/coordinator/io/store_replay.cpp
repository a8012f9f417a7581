// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/io/store_replay.h"

#include <fmt/format.h>

#include <utility>

#include "rendezvous/store/store_sessions.h"

namespace cpprun {

namespace {

using RecordKind = StoreRecord::Kind;

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
    if (has_told && (reader_.comes(RecordKind::taken) || reader_.comes(RecordKind::closed)))
      return {};
    const auto record = reader_.next();
    if (!record) return tl::unexpected<Error>(record.error());
    has_more = record->has_value();
    if (!has_more) return {};
    const RecordKind kind = (*record)->kind;
    has_told = has_told || (kind != RecordKind::taken && kind != RecordKind::read);
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
    log.add({.kind = RecordKind::renamed,
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
    case RecordKind::opened:
    case RecordKind::numbered:
      return open(record);
    case RecordKind::value:
      place_.store.put_value(record.key, record.bytes);
      return {};
    case RecordKind::queued:
      place_.store.put_queued(record.key, record.bytes);
      return {};
    case RecordKind::taken:
    case RecordKind::over:
    case RecordKind::stream:
      if (NodeStreams* const streams = streams_of(record.node)) streams->replay(record);
      return {};
    case RecordKind::read:
    case RecordKind::decided:
    case RecordKind::listed:
    case RecordKind::abandoned:
    case RecordKind::closed:
    case RecordKind::renamed:
    case RecordKind::waits:
    case RecordKind::watches:
    case RecordKind::owed:
    case RecordKind::session:
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
  if (record.kind == RecordKind::numbered) {
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
    if (record.kind == RecordKind::closed) return {};
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
    case RecordKind::read:
      sessions.replay_read(client.id, record.bytes);
      if (NodeStreams* const streams = streams_of(client.node)) streams->replay(of_stream);
      return {};
    case RecordKind::decided:
      return must(sessions.replay_decided(client.id, record.count));
    case RecordKind::listed:
      return must(sessions.replay_listed(client.id, record.count, record.bytes));
    case RecordKind::abandoned:
      sessions.replay_abandoned(client.id);
      return {};
    case RecordKind::closed:
      clients_.erase(found);
      sessions.close(client.id, "it was closed there", true);
      return {};
    case RecordKind::renamed:
      renamed_[ConnectionId{record.place}] = client;
      if (record.count != 0) clients_ = std::exchange(renamed_, {});
      return {};
    case RecordKind::waits:
      place_.store.put_waiting(client.id, record.key, record.count != 0);
      return {};
    case RecordKind::watches:
      place_.store.put_watching(client.id, record.key);
      return {};
    case RecordKind::owed:
      place_.store.put_owed(client.id, record.key);
      return {};
    case RecordKind::session:
      sessions.restore(client.id, record.flags, record.key, record.bytes);
      return {};
    case RecordKind::opened:
    case RecordKind::taken:
    case RecordKind::over:
    case RecordKind::value:
    case RecordKind::queued:
    case RecordKind::stream:
    case RecordKind::numbered:
      break;
  }
  return must(false);
}

}  // namespace cpprun
