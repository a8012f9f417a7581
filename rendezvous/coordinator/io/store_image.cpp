// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/io/store_image.h"

#include <utility>

#include "rendezvous/store/store_sessions.h"

namespace cpprun {

namespace {

using Kind = StoreRecord::Kind;

// Copied in a slice, about: a few milliseconds' work.
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

StoreImage::StoreImage(Place place) : place_(std::move(place)) {
  place_.connections.with_sessions(
      [this](StoreSessions& sessions) { sessions.hold(place_.listener.value); });
}

StoreImage::~StoreImage() {
  place_.connections.with_sessions(
      [this](StoreSessions& sessions) { sessions.let_go(place_.listener.value); });
}

// All at once: who is there, and what was said to whom.
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

}  // namespace cpprun
