// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/io/local_transport.h"

#include <sys/eventfd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "proto/c10d/codec.h"
#include "proto/link/bounds.h"
#include "proto/text.h"
#include "rendezvous/byte_buffer.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/store/store_log.h"

namespace cpprun {

namespace {

using Clock = std::chrono::steady_clock;
using Code = StoreErrorCode;

// A snapshot is this line and a log of the store with values and entries of queues only.
constexpr std::string_view snapshot_start = "cpprun store 1\n";

tl::unexpected<StoreError> closed() {
  return failure(Code::closed, "the store closed the connection");
}

std::string text_of(const StoredValue& value) {
  return value.beginning(value.size());
}

// Collects part of what a store shows.
class Collector : public Store::Viewer {
 public:
  void value(std::string_view /*key*/, const StoredValue& /*value*/) override {}
  void queued(std::string_view /*key*/, const StoredValue& /*value*/) override {}
  void waits(ConnectionId /*client*/, std::string_view /*key*/, bool /*in_barrier*/) override {}
  void watches(ConnectionId /*client*/, std::string_view /*key*/) override {}
  void owed(ConnectionId /*client*/, std::string_view /*key*/) override {}
};

class Values : public Collector {
 public:
  explicit Values(const std::string& prefix) : prefix_(prefix) {}
  void value(std::string_view key, const StoredValue& value) override {
    if (key.starts_with(prefix_)) found.emplace_back(key, text_of(value));
  }
  std::vector<std::pair<std::string, std::string>> found;

 private:
  const std::string& prefix_;
};

struct Wait {
  ConnectionId client;
  std::string key;
  bool is_barrier;
};

class Waits : public Collector {
 public:
  void waits(ConnectionId client, std::string_view key, bool in_barrier) override {
    found.push_back({client, std::string(key), in_barrier});
  }
  std::vector<Wait> found;
};

class Image : public Collector {
 public:
  explicit Image(const StoreNamespaces& namespaces) : namespaces_(namespaces) {}
  // What has a lease belongs to a client, and not to the snapshot.
  void value(std::string_view key, const StoredValue& value) override {
    if (!namespaces_.has_lease(key)) add(StoreRecord::Kind::value, key, value);
  }
  void queued(std::string_view key, const StoredValue& value) override {
    add(StoreRecord::Kind::queued, key, value);
  }
  StoreLog log;

 private:
  const StoreNamespaces& namespaces_;
  void add(StoreRecord::Kind kind, std::string_view key, const StoredValue& value) {
    const std::string text = text_of(value);
    log.add({.kind = kind, .key = key, .bytes = text});
  }
};

}  // namespace

// Used with the mutex of the store.
class LocalTransport::Stream : public StoreStream {
 public:
  std::size_t read(std::span<char> into) override {
    const std::size_t count = std::min(into.size(), sent.size());
    if (count > 0) std::memcpy(into.data(), sent.view().data(), count);
    sent.drop_front(count);
    return count;
  }
  std::size_t write(std::string_view bytes) override {
    received.append(bytes);
    notify();
    return bytes.size();
  }
  void closed() override {
    is_over = true;
    notify();
  }
  void notify() {
    changed.notify_all();
    if (news) (void)eventfd_write(news.get(), 1);  // far from its maximum
  }

  ByteBuffer sent;      // by the client, and not read by the store yet
  ByteBuffer received;  // from the store, and not taken by the client yet
  bool is_over = false;
  bool is_interrupted = false;
  std::condition_variable changed;
  FileDescriptor news;  // an eventfd, if the client wants one: readable while there are bytes
};

LocalTransport::LocalTransport(std::shared_ptr<OpenStore> store)
    : store_(std::move(store)), stream_(std::make_shared<Stream>()) {}

StoreResult<std::unique_ptr<StoreTransport>> LocalTransport::open(
    std::shared_ptr<OpenStore> store) {
  std::unique_ptr<LocalTransport> transport(new LocalTransport(std::move(store)));
  OpenStore& its = *transport->store_;
  {
    const auto lock = its.enter();
    if (!lock) return tl::unexpected(lock.error());
    const Result<ConnectionId> id =
        its.connections_->open_stream(its.listening_.id, {}, transport->stream_);
    if (!id) return failure(Code::refused, id.error().reason);
    transport->id_ = *id;
  }
  std::string hello;
  (void)c10d::encode(c10d::Validate{}, c10d::Dialect::d, hello);  // dialect D has it
  if (auto sent = transport->send(hello, {}); !sent) return tl::unexpected(std::move(sent.error()));
  return transport;
}

// In a fork the store is not touched.
LocalTransport::~LocalTransport() {
  if (id_ == ConnectionId{}) return;
  if (store_->owner_.is_this() && store_->is_admitting_here()) {
    // This thread has the mutex, and is in the middle of a turn, after which the stream ends. It
    // must not wait for a callback, which may wait for the mutex.
    (void)store_->remove_watches(id_);
    if (!stream_->is_over) store_->connections_->tell_stream(id_, {.is_over = true});
    return;
  }
  OpenStore::Removed removed;  // released after the mutex
  if (auto lock = store_->enter()) {
    removed = store_->remove_watches(id_);
    if (!stream_->is_over) {
      store_->connections_->tell_stream(id_, {.is_over = true});
      store_->connections_->serve_streams(Clock::now());
      store_->settle();
    }
  } else if (lock.error().code == Code::forked) {
    return;
  }
  // A callback that another thread is making for a watch ends first.
  if (has_watched_) const std::lock_guard calling(store_->calling_);
}

// All of it fits: what the store has no time for now waits in memory.
StoreResult<std::size_t> LocalTransport::send(std::string_view bytes, TimePoint /*deadline*/) {
  const auto lock = store_->enter();
  if (!lock) return tl::unexpected(lock.error());
  if (stream_->is_over || stream_->is_interrupted) return closed();
  stream_->sent.append(bytes);
  ConnectionSet& connections = *store_->connections_;
  connections.tell_stream(id_, {.has_bytes = true});
  connections.serve_streams(Clock::now());
  store_->settle();
  return bytes.size();
}

StoreResult<std::size_t> LocalTransport::receive(std::span<char> into, TimePoint deadline) {
  OpenStore::Removed removed;  // released after the mutex
  auto lock = store_->enter();
  if (!lock) return tl::unexpected(std::move(lock.error()));
  const std::shared_ptr<Stream> stream =
      stream_;  // a fork must not destroy what a thread waits for
  const auto has_news = [&stream] {
    return !stream->received.empty() || stream->is_over || stream->is_interrupted;
  };
  // More than one turn may be necessary, and there need not be another thread that serves.
  while (!has_news() && !store_->connections_->is_idle() && Clock::now() < deadline) {
    store_->help();
    if (!store_->is_closing_) continue;
    // By the callback that admits clients. There need not be another thread that closes it.
    removed = store_->close_now();
    return closed();
  }
  if (!stream->changed.wait_until(*lock, deadline, has_news))
    return failure(Code::timeout, "no response");
  const std::size_t count = std::min(into.size(), stream->received.size());
  if (count == 0 || stream->is_interrupted) return closed();
  std::memcpy(into.data(), stream->received.view().data(), count);
  stream->received.drop_front(count);
  if (eventfd_t all = 0; stream->news && stream->received.empty() && !stream->is_over) {
    (void)eventfd_read(stream->news.get(), &all);
  }
  return count;
}

StoreResult<int> LocalTransport::descriptor() {
  const auto lock = store_->enter();
  if (!lock) return tl::unexpected(lock.error());
  if (!stream_->news) {
    const bool has_news = !stream_->received.empty() || stream_->is_over;
    stream_->news.reset(eventfd(has_news ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!stream_->news) return failure(Code::system, errno_text(errno));
  }
  return stream_->news.get();
}

void LocalTransport::interrupt() noexcept {
  if (const auto lock = store_->enter()) {
    stream_->is_interrupted = true;
    stream_->notify();
  }
}

// --- without requests ----------------------------------------------------------------------------

bool LocalTransport::find(std::string_view key, std::optional<std::string>& value) {
  const auto lock = store_->enter();
  if (!lock || stream_->is_over || !store_->connections_->is_idle()) return false;
  if (const StoredValue* const found = store_->contents().value_of(key)) value = text_of(*found);
  return true;
}

StoreResult<void> LocalTransport::watch(std::string prefix, Watcher watcher) {
  const auto lock = store_->enter();
  if (!lock) return tl::unexpected(lock.error());
  has_watched_ = true;
  store_->add_watch({.client = id_, .prefix = std::move(prefix), .watcher = std::move(watcher)});
  return {};
}

StoreResult<void> LocalTransport::each(const std::string& prefix, const Visitor& visit) {
  for (std::size_t shard = 0; shard < Store::shard_count; ++shard) {
    Values values(prefix);
    {
      const auto lock = store_->enter();
      if (!lock) return tl::unexpected(lock.error());
      store_->contents().show_shard(shard, values);
    }
    for (const auto& [key, value] : values.found) visit(key, value);
  }
  return {};
}

StoreResult<void> LocalTransport::waits(const WaitVisitor& visit) {
  Waits waits;
  std::vector<std::string> clients;
  {
    const auto lock = store_->enter();
    if (!lock) return tl::unexpected(lock.error());
    for (std::size_t shard = 0; shard < Store::shard_count; ++shard) {
      store_->contents().show_shard(shard, waits);
    }
    for (const Wait& wait : waits.found) clients.push_back(store_->name_of(wait.client));
  }
  for (std::size_t at = 0; at < clients.size(); ++at) {
    visit(clients[at], waits.found[at].key, waits.found[at].is_barrier);
  }
  return {};
}

StoreResult<StoreFigures> LocalTransport::figures() {
  const auto lock = store_->enter();
  if (!lock) return tl::unexpected(lock.error());
  const Store& store = store_->contents();
  const std::size_t own = store_->reaper_ == nullptr ? 0 : 1;
  return StoreFigures{.clients = store_->connections_->connection_count() - own,
                      .keys = store.key_count(),
                      .bytes = store_->connections_->accounting().bytes_held(),
                      .waits = store.parked_count()};
}

StoreResult<std::string> LocalTransport::snapshot() {
  const auto lock = store_->enter();
  if (!lock) return tl::unexpected(lock.error());
  Image image(store_->namespaces_);
  for (std::size_t shard = 0; shard < Store::shard_count; ++shard) {
    store_->contents().show_shard(shard, image);
  }
  if (image.log.is_lost()) return failure(Code::no_memory, "out of memory");
  return std::string(snapshot_start) + image.log.take();
}

StoreResult<void> LocalTransport::restore(std::string_view snapshot, Duration timeout) {
  const auto damaged = [](const std::string& why) {
    return failure(Code::bad_argument, "this is not a snapshot of a store: " + why);
  };
  if (!snapshot.starts_with(snapshot_start)) return damaged("its first line is another");
  // Everything is read before anything is changed.
  std::vector<std::pair<StoreRecord::Kind, std::pair<std::string, std::string>>> records;
  std::size_t vanishing = 0;  // values that would end with the client that restores them
  std::string first_vanishing;
  StoreLogReader reader;
  reader.hear(snapshot.substr(snapshot_start.size()));
  while (true) {
    const Result<std::optional<StoreRecord>> record = reader.next();
    if (!record) return damaged(record.error().reason);
    if (!*record) break;
    const StoreRecord& read = **record;
    if (read.kind != StoreRecord::Kind::value && read.kind != StoreRecord::Kind::queued) {
      return damaged("it has other records than values");
    }
    records.push_back({read.kind, {std::string(read.key), std::string(read.bytes)}});
    const bool would_vanish =
        read.kind == StoreRecord::Kind::value && store_->namespaces_.ends_with_client(read.key);
    if (would_vanish && ++vanishing == 1) first_vanishing = read.key;
  }
  if (reader.left() > 0) return damaged("it is incomplete");
  if (vanishing > 0) {
    return failure(Code::bad_argument,
                   fmt::format("{} of {} keys of the snapshot, first \"{}\", belong to a namespace "
                               "whose keys end with their client",
                               vanishing, records.size(),
                               plain_line(first_vanishing, bounds::name_shown_bytes_max)));
  }
  auto client = store_->connect({.timeout = timeout, .key_prefix = ""});
  if (!client) return tl::unexpected(std::move(client.error()));
  for (const auto& [kind, entry] : records) {
    const auto& [key, value] = entry;
    auto done =
        kind == StoreRecord::Kind::value ? client->set(key, value) : client->queue_push(key, value);
    if (!done) return done;
  }
  // A request that was rejected has ended the connection.
  if (const auto keys = client->num_keys(); !keys) return tl::unexpected(keys.error());
  return {};
}

}  // namespace cpprun
