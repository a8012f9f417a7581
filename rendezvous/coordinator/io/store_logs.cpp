// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/io/store_logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "rendezvous/store/store_sessions.h"

namespace cpprun {

namespace {

using Kind = StoreRecord::Kind;

// The approximate amount copied in a slice: a few milliseconds of work.
constexpr std::uint64_t slice_bytes = 4 * 1024 * 1024;

class Writer : public Store::Viewer {
 public:
  explicit Writer(StoreLog& log) : log_(log) {}
  void value(std::string_view key, const StoredValue& value) override {
    put(Kind::value, key, value);
  }
  void queued(std::string_view key, const StoredValue& value) override {
    put(Kind::queued, key, value);
  }
  void waits(ConnectionId client, std::string_view key, bool in_barrier) override {
    log_.add({.kind = Kind::waits, .client = client, .count = in_barrier ? 1U : 0U, .key = key});
  }
  void watches(ConnectionId client, std::string_view key) override {
    log_.add({.kind = Kind::watches, .client = client, .key = key});
  }
  void owed(ConnectionId client, std::string_view key) override {
    log_.add({.kind = Kind::owed, .client = client, .key = key});
  }

 private:
  void put(Kind kind, std::string_view key, const StoredValue& value) {
    if (const auto view = value.view()) return log_.add({.kind = kind, .key = key, .bytes = *view});
    const std::string whole = value.beginning(value.size());
    log_.add({.kind = kind, .key = key, .bytes = whole});
  }
  StoreLog& log_;
};

}  // namespace

StoreImage::StoreImage(Context place) : place_(std::move(place)) {
  place_.connections.with_sessions(
      [this](StoreSessions& sessions) { sessions.hold(place_.listener.value); });
}

StoreImage::~StoreImage() {
  place_.connections.with_sessions(
      [this](StoreSessions& sessions) { sessions.let_go(place_.listener.value); });
}

// In one step: the clients, and what was sent to each.
void StoreImage::show_clients() {
  place_.connections.with_sessions([&](StoreSessions& sessions) {
    if (!sessions.can_be_shown(place_.listener.value)) return;
    at_ = place_.log.written();
    place_.routes.show(place_.job, image_);
    sessions.show(place_.listener.value, [this](const StoreSessions::Shown& shown) {
      image_.add({.kind = Kind::session,
                  .client = shown.id,
                  .flags = shown.conversation,
                  .key = shown.inbox,
                  .bytes = shown.outbox});
    });
  });
}

bool StoreImage::go_on() {
  if (!at_) {
    show_clients();
    return false;
  }
  Writer writer(image_);
  for (const std::uint64_t before = image_.written();
       next_shard_ < Store::shard_count && image_.written() - before < slice_bytes; ++next_shard_) {
    place_.store.show_shard(next_shard_, writer);
  }
  return next_shard_ == Store::shard_count;
}

void write_contents(const Store& store, StoreLog& image) {
  Writer writer(image);
  for (std::size_t shard = 0; shard < Store::shard_count; ++shard) store.show_shard(shard, writer);
}

namespace {

using RecordKind = StoreRecord::Kind;

tl::unexpected<Error> unknown_client(const StoreRecord& record) {
  return failure(fmt::format("a record of kind {} is about client {}, which was never opened",
                             static_cast<int>(record.kind), record.client.value));
}

}  // namespace

StoreReplay::StoreReplay(Context place) : place_(std::move(place)) {
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
    if (!is_done) return failure("out of memory");
  }
  return heard;
}

// Stops before a `taken` or `closed` record once a record may have produced output. The output has
// to reach the streams before it can be taken, and before its client is gone.
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
  return failure("a record has an unknown kind");
}

Result<void> StoreReplay::open(const StoreRecord& record) {
  const auto peer = peer_of(record.key);
  if (!peer) return failure("a record has an invalid address");
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
    // A client of an earlier round, whose end may be logged late.
    if (record.kind == RecordKind::closed) return {};
    return unknown_client(record);
  }
  const Client client = found->second;
  const auto must = [&record](bool is_right) -> Result<void> {
    if (is_right) return {};
    return failure(fmt::format("a record of kind {} contradicts earlier records",
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
      sessions.close(client.id, "closed on the leader", true);
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

StoreLogs::~StoreLogs() {
  // An unfinished image holds the job's port.
  for (const auto& [job, log] : logs_) log->image.reset();
}

// --- keepers -------------------------------------------------------------------------------------

void StoreLogs::attach(LogKeeper& keeper) {
  if (keepers_.contains(&keeper)) return;
  keeper.attached_as_ = ++attached_;
  keepers_.insert(&keeper);
  for (const auto& [job, log] : logs_) {
    take_down(job, *log);
    log->wants_image.insert(&keeper);
  }
  go_on_soon();
}

void StoreLogs::detach(LogKeeper& keeper) {
  keepers_.erase(&keeper);
  for (const auto& [job, log] : logs_) {
    for (auto* const each : {&log->live, &log->wants_image, &log->image_for}) each->erase(&keeper);
    if (log->image && log->image_for.empty()) {
      log->image.reset();
      log->since_image.clear();
    }
    take_down(job, *log);
  }
  resume_images();  // it may be the keeper that had no room
}

bool StoreLogs::is_whole_at(LogKeeper& keeper) const {
  return std::ranges::all_of(logs_,
                             [&](const auto& each) { return each.second->live.contains(&keeper); });
}

void StoreLogs::renew(LogKeeper& keeper, const std::string& job) {
  const auto found = logs_.find(job);
  if (found == logs_.end() || !keepers_.contains(&keeper)) return;
  Log& log = *found->second;
  log.live.erase(&keeper);
  // An image that has not started will contain everything.
  if (log.image_for.contains(&keeper) && !log.image->at()) return;
  log.image_for.erase(&keeper);
  log.wants_image.insert(&keeper);
  go_on_soon();
}

void StoreLogs::shorten(LogKeeper& keeper, const std::string& job) {
  const auto found = logs_.find(job);
  if (found == logs_.end() || !found->second->live.contains(&keeper)) return;
  if (found->second->image_for.contains(&keeper)) return;
  found->second->wants_image.insert(&keeper);
  go_on_soon();
}

// --- rounds --------------------------------------------------------------------------------------

StoreLog* StoreLogs::log_of(const std::string& job) {
  const auto found = keepers_.empty() ? logs_.end() : logs_.find(job);
  return found == logs_.end() ? nullptr : &found->second->log;
}

// Logs what the job's clients send only while there is a keeper.
void StoreLogs::take_down(const std::string& job, Log& log) {
  const ListenerId listener = callbacks_.listener_of(job);
  StoreLog* const to = keepers_.empty() ? nullptr : &log.log;
  connections_.with_sessions(
      [&](StoreSessions& sessions) { sessions.keep_journal(listener.value, to); });
  routes_.keep_log(job, to);
}

void StoreLogs::begin(const std::string& job, RoundNumber round) {
  end(job);
  Log& log = *(logs_[job] = std::make_unique<Log>());
  log.round = round;
  log.live = keepers_;
  for (LogKeeper* const keeper : keepers_) {
    keeper->begin_log(job, round);
    keeper->log_is_whole(job);
  }
  take_down(job, log);
}

void StoreLogs::go_on(const std::string& job, RoundNumber round, const StoreReplay* replay) {
  const auto old = logs_.extract(job);
  Log& log = *(logs_[job] = std::make_unique<Log>());
  log.round = round;
  for (LogKeeper* const keeper : keepers_) {
    const bool has_it = replay != nullptr && keeper->go_on_log(job);
    (has_it ? log.live : log.wants_image).insert(keeper);
    if (!has_it) keeper->end_log(job);
  }
  if (!log.live.empty()) replay->rename(log.log);
  take_down(job, log);
  flush(job, log);
  go_on_soon();
}

void StoreLogs::end(const std::string& job) {
  const auto found = logs_.find(job);
  if (found == logs_.end()) return;
  const auto log = std::move(found->second);
  logs_.erase(found);
  leave(job, *log);
  for (LogKeeper* const keeper : keepers_) keeper->end_log(job);
}

void StoreLogs::end_all() {
  for (const auto& [job, log] : std::exchange(logs_, {})) leave(job, *log);
}

void StoreLogs::leave(const std::string& job, Log& log) {
  log.image.reset();
  connections_.with_sessions([&](StoreSessions& sessions) {
    sessions.keep_journal(callbacks_.listener_of(job).value, nullptr);
  });
  routes_.keep_log(job, nullptr);
}

// --- writing -------------------------------------------------------------------------------------

void StoreLogs::flush(const std::string& job) {
  const auto found = logs_.find(job);
  if (found != logs_.end()) flush(job, *found->second);
}

void StoreLogs::flush() {
  for (const auto& [job, log] : logs_) flush(job, *log);
}

void StoreLogs::flush(const std::string& job, Log& log) {
  if (!log.log.has_more()) return;
  const std::string bytes = log.log.take();
  if (log.log.is_lost()) {
    // No keeper can continue its copy from here.
    log.log.begin_anew();
    log.image.reset();
    log.since_image.clear();
    for (auto* const each : {&log.live, &log.image_for}) {
      log.wants_image.merge(*each);
      each->clear();
    }
    for (LogKeeper* const keeper : log.wants_image) keeper->end_log(job);
    return go_on_soon();
  }
  // A keeper whose log is long asks for an image from within add_log(), hence the copy of the set.
  // It continues its log until the image is complete, so what is logged now is confirmed at once.
  for (LogKeeper* const keeper : Keepers(log.live)) keeper->add_log(job, bytes);
  if (log.image && log.image->at()) log.since_image += bytes;
}

// --- images --------------------------------------------------------------------------------------

void StoreLogs::go_on_soon() {
  if (std::exchange(is_going_on_, true)) return;
  callbacks_.soon([this, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    is_going_on_ = false;
    go_on_with_images();
  });
}

void StoreLogs::go_on_with_images() {
  for (const auto& [job, log] : logs_) {
    make_images(job, *log);
    if (log->image && has_room(*log)) go_on_with_image(job, *log);
    const bool has_more = log->image || !log->wants_image.empty();
    if (has_more && has_room(*log)) go_on_soon();
  }
}

void StoreLogs::resume_images() {
  if (std::ranges::any_of(logs_, [](const auto& each) { return each.second->image.has_value(); })) {
    go_on_soon();
  }
}

// An image may be produced faster than a keeper can write it.
bool StoreLogs::has_room(const Log& log) {
  return !log.image || !log.image->at() ||
         std::ranges::all_of(log.image_for,
                             [](LogKeeper* keeper) { return keeper->has_room_for_image(); });
}

void StoreLogs::make_images(const std::string& job, Log& log) {
  if (log.image || log.wants_image.empty()) return;
  log.image_for = std::exchange(log.wants_image, {});
  log.image.emplace(StoreImage::Context{.connections = connections_,
                                        .routes = routes_,
                                        .listener = callbacks_.listener_of(job),
                                        .store = callbacks_.store_of(job),
                                        .job = job,
                                        .log = log.log});
}

void StoreLogs::go_on_with_image(const std::string& job, Log& log) {
  // What was logged before the image is part of it.
  flush(job, log);
  if (!log.image) return;
  const bool had_begun = log.image->at().has_value();
  const bool is_whole = log.image->go_on();
  if (!had_begun && log.image->at()) {
    for (LogKeeper* const keeper : log.image_for) keeper->begin_log(job, log.round);
  }
  if (log.image->is_lost()) {
    // Out of memory: start another image.
    log.image.reset();
    log.since_image.clear();
    log.wants_image.merge(std::exchange(log.image_for, {}));
    return;
  }
  const std::string bytes = log.image->take();
  for (LogKeeper* const keeper : Keepers(log.image_for)) {
    keeper->add_image(job, bytes);
  }
  if (!is_whole) return;
  flush(job, log);
  log.image.reset();
  const std::string since = std::exchange(log.since_image, {});
  const Keepers have = std::exchange(log.image_for, {});
  log.live.insert(have.begin(), have.end());
  for (LogKeeper* const keeper : have) {
    if (!since.empty()) keeper->add_image(job, since);
    keeper->log_is_whole(job);
  }
}

}  // namespace cpprun
