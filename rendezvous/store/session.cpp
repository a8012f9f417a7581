// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/session.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace cpprun {

void Outbox::append(const IoSlices& pieces) {
  const std::size_t before = copied_taken_ + copied_.size();
  for (const IoSlices::Placed& placed : pieces.shared) {
    if (placed.slice.size == 0) continue;
    shared_.push_back({before + placed.at, placed.slice});
    shared_left_ += placed.slice.size;
  }
  copied_.append(pieces.copied);
}

std::span<const std::string_view> Outbox::next(std::span<std::string_view> room,
                                               std::size_t bytes_max) const {
  std::size_t used = 0;
  const auto put = [&](std::string_view bytes) {
    bytes = bytes.substr(0, bytes_max);
    if (bytes.empty()) return;
    bytes_max -= bytes.size();
    room[used++] = bytes;
  };
  std::string_view copied = copied_.view();
  std::size_t at = copied_taken_;
  for (std::size_t index = next_; index < shared_.size(); ++index) {
    if (used + 2 > room.size() || bytes_max == 0) return room.first(used);
    const Placed& placed = shared_[index];
    const std::size_t before = placed.copied_before - at;
    put(copied.substr(0, before));
    copied.remove_prefix(before);
    at += before;
    put(placed.slice.view());
  }
  if (used < room.size()) put(copied);
  return room.first(used);
}

std::string Outbox::text() const {
  std::vector<std::string_view> room(2 * (shared_.size() - next_) + 2);
  std::string text;
  for (const std::string_view piece : next(room, std::numeric_limits<std::size_t>::max())) {
    text.append(piece);
  }
  return text;
}

void Outbox::drop_front(std::size_t count) {
  while (count > 0) {
    const std::size_t copied_next =
        next_ == shared_.size() ? copied_.size() : shared_[next_].copied_before - copied_taken_;
    if (copied_next > 0) {
      const std::size_t dropped = std::min(count, copied_next);
      copied_.drop_front(dropped);
      copied_taken_ += dropped;
      count -= dropped;
      continue;
    }
    Slice& slice = shared_[next_].slice;
    const std::size_t dropped = std::min(count, slice.size);
    slice.start += dropped;
    slice.size -= dropped;
    shared_left_ -= dropped;
    count -= dropped;
    if (slice.size > 0) continue;
    slice.chunk.reset();
    ++next_;
  }
  if (next_ == shared_.size()) {
    shared_ = {};
    next_ = 0;
  }
}

Session& SessionTable::open(int socket, const PeerAddress& peer, std::uint32_t port) {
  std::uint32_t slot = 0;
  if (free_.empty()) {
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Session& session = slots_[slot];
  session.id = ConnectionId{(++serial_ << slot_bits) | slot};
  session.socket = socket;
  session.peer = peer;
  session.port = port;
  return session;
}

const Session* SessionTable::find(ConnectionId id) const {
  const std::uint64_t slot = id.value & ((std::uint64_t{1} << slot_bits) - 1);
  if (id.value == 0 || slot >= slots_.size() || slots_[slot].id != id) return nullptr;
  return &slots_[slot];
}

Session* SessionTable::find(ConnectionId id) {
  return const_cast<Session*>(std::as_const(*this).find(id));
}

void SessionTable::release(Session& session) {
  const std::uint64_t slot = session.id.value & ((std::uint64_t{1} << slot_bits) - 1);
  session = Session{};
  free_.push_back(static_cast<std::uint32_t>(slot));
}

namespace {

// The queue is tidied when it is longer than this and than twice the number of connections.
constexpr std::size_t line_length_min = 64;

Session* still_silent(SessionTable& table, ConnectionId id) {
  Session* const session = table.find(id);
  return session != nullptr && session->speaks == Speaks::unknown_yet ? session : nullptr;
}

}  // namespace

void UnidentifiedConnections::add(ConnectionId id, SessionTable& table) {
  line_.push_back(id);
  if (line_.size() <= std::max(line_length_min, 2 * table.size())) return;
  std::erase_if(line_, [&](ConnectionId each) { return still_silent(table, each) == nullptr; });
}

Session* UnidentifiedConnections::longest_silent(SessionTable& table, ConnectionId newest) {
  while (!line_.empty()) {
    if (line_.front() == newest) return nullptr;
    if (Session* const silent = still_silent(table, line_.front())) return silent;
    line_.pop_front();
  }
  return nullptr;
}

Session* UnidentifiedConnections::longest_silent_of(SessionTable& table,
                                                    const PeerAddress& source) const {
  for (const ConnectionId each : line_) {
    Session* const silent = still_silent(table, each);
    if (silent != nullptr && silent->peer.source() == source) return silent;
  }
  return nullptr;
}

}  // namespace cpprun
