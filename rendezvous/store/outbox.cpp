// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/outbox.h"

#include <algorithm>
#include <limits>

namespace cpprun {

void Outbox::append(const Pieces& pieces) {
  const std::size_t before = copied_taken_ + copied_.size();
  for (const Pieces::Placed& placed : pieces.shared) {
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

}  // namespace cpprun
