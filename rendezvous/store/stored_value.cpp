// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/stored_value.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <utility>

#include "proto/c10d/codec.h"
#include "rendezvous/store/bounds.h"

namespace cpprun {

namespace {

// The chunk object, and the allocator's overhead for object and memory.
constexpr std::size_t chunk_overhead = 128;
// A new chunk at the end of a value has room for a quarter of the value's size, so that many short
// APPENDs do not need many chunks, but never for more than this.
constexpr std::size_t append_room_max = 1024 * 1024;
// A value keeps a part of the memory in which a request arrived only if copying that part would
// take long, because all of that memory lives as long as the part.
constexpr std::size_t kept_bytes_min = bounds::store_bulk_bytes_min;
constexpr std::size_t copied_bytes_max = 4 * 1024 * 1024;

char* allocated(std::size_t bytes) {
  auto* data = static_cast<char*>(std::malloc(std::max<std::size_t>(bytes, 1)));
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

// Memory of a chunk that is no longer used. It is given back from its end, a few megabytes at a
// time.
class DeferredChunk : public DeferredFree {
 public:
  DeferredChunk(char* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  ~DeferredChunk() override { std::free(data_); }
  bool free_some(std::size_t& work) override {
    const std::size_t freed = work * bounds::store_bytes_freed_of_work;
    if (bytes_ <= freed) {
      work -= bytes_ / bounds::store_bytes_freed_of_work;
      return true;
    }
    work = 0;
    bytes_ -= freed;
    auto* rest = static_cast<char*>(std::realloc(data_, bytes_));
    if (rest != nullptr) data_ = rest;
    return false;
  }

 private:
  char* data_;
  std::size_t bytes_;
};

}  // namespace

// --- chunks ------------------------------------------------------------------------------------

Chunk::Chunk(MemoryAccounting& accounting, AccountId account, std::size_t capacity)
    : Chunk(accounting, account, allocated(capacity), 0, capacity) {}

Chunk::Chunk(MemoryAccounting& accounting, AccountId account, char* data, std::size_t used,
             std::size_t capacity)
    : accounting_(accounting),
      data_(data),
      used_(used),
      capacity_(capacity),
      charge_(accounting, account, capacity + chunk_overhead) {}

Chunk::~Chunk() {
  const bool is_later = capacity_ > bounds::store_freed_at_once_max && accounting_.is_tended();
  // If there is no memory to do it later, it is done now.
  auto* const deferred = is_later ? new (std::nothrow) DeferredChunk(data_, capacity_) : nullptr;
  if (deferred == nullptr) {
    std::free(data_);
  } else {
    accounting_.free_later(std::unique_ptr<DeferredFree>(deferred));
  }
}

char* Chunk::release() {
  charge_ = Reservation();
  used_ = capacity_ = 0;
  return std::exchange(data_, nullptr);
}

void Chunk::write(std::string_view bytes) {
  std::memcpy(data_ + used_, bytes.data(), bytes.size());
  used_ += bytes.size();
}

// --- pieces ------------------------------------------------------------------------------------

void IoSlices::share(Slice slice) {
  shared_bytes += slice.size;
  shared.push_back({copied.size(), std::move(slice)});
}

std::string IoSlices::text() const {
  std::string all;
  std::size_t at = 0;
  for (const Placed& placed : shared) {
    all.append(copied, at, placed.at - at);
    all.append(placed.slice.view());
    at = placed.at;
  }
  return all.append(copied, at);
}

bool operator==(const IoSlices& left, const IoSlices& right) {
  return left.text() == right.text();
}

// --- values ------------------------------------------------------------------------------------

std::string StoredValue::beginning(std::size_t bytes_max) const {
  if (!large_) return small_.substr(0, bytes_max);
  std::string text;
  for (const Slice& slice : large_->slices) {
    text.append(slice.view().substr(0, bytes_max - text.size()));
    if (text.size() == bytes_max) break;
  }
  return text;
}

bool StoredValue::equals(std::string_view bytes) const {
  if (!large_) return small_ == bytes;
  if (large_->size != bytes.size()) return false;
  return std::ranges::all_of(large_->slices, [&bytes](const Slice& slice) {
    const bool is_same = bytes.starts_with(slice.view());
    bytes.remove_prefix(slice.size);
    return is_same;
  });
}

Slice StoredValue::slice_of(MemoryAccounting& accounting, Origin& origin, std::string_view bytes) {
  if (origin.memory) {
    const std::string_view all = origin.memory->view();
    const std::less_equal<const char*> is_before;
    const bool is_inside = is_before(all.data(), bytes.data()) &&
                           is_before(bytes.data() + bytes.size(), all.data() + all.size());
    if (is_inside && (bytes.size() >= kept_bytes_min || origin.copied > copied_bytes_max)) {
      return {origin.memory, static_cast<std::size_t>(bytes.data() - all.data()), bytes.size()};
    }
  }
  origin.copied += bytes.size();
  auto chunk = std::make_shared<Chunk>(accounting, origin.account, bytes.size());
  chunk->write(bytes);
  return {std::move(chunk), 0, bytes.size()};
}

void StoredValue::assign(MemoryAccounting& accounting, Origin& origin, std::string_view bytes) {
  if (bytes.size() < bounds::store_shared_bytes_min) {
    // The usual case, a counter or a state that is overwritten. assign() costs three times as much.
    if (bytes.size() == small_.size()) {
      std::memmove(small_.data(), bytes.data(), bytes.size());
    } else {
      small_.assign(bytes);
    }
    large_.reset();
    return;
  }
  auto large = std::make_unique<Large>();
  large->slices.push_back(slice_of(accounting, origin, bytes));
  large->size = bytes.size();
  small_ = {};
  large_ = std::move(large);
}

void StoredValue::append(MemoryAccounting& accounting, Origin& origin, std::string_view bytes) {
  if (!large_ && small_.size() + bytes.size() < bounds::store_shared_bytes_min) {
    small_.append(bytes);
    return;
  }
  if (bytes.empty()) return;
  if (!large_) {
    auto large = std::make_unique<Large>();
    const std::size_t room = std::min(append_room_max, small_.size() + bytes.size());
    auto chunk = std::make_shared<Chunk>(accounting, origin.account, small_.size() + room);
    chunk->write(small_);
    large->slices.push_back({std::move(chunk), 0, small_.size()});
    large->size = small_.size();
    large_ = std::move(large);
    small_ = {};
  }
  Slice& last = large_->slices.back();
  const bool ends_there = last.start + last.size == last.chunk->used();
  if (ends_there && last.chunk->room() >= bytes.size()) {
    last.chunk->write(bytes);
    last.size += bytes.size();
  } else if (bytes.size() >= kept_bytes_min) {
    large_->slices.push_back(slice_of(accounting, origin, bytes));
  } else {
    const std::size_t room = std::clamp(large_->size / 4, bytes.size(), append_room_max);
    auto chunk = std::make_shared<Chunk>(accounting, origin.account, std::max(room, bytes.size()));
    chunk->write(bytes);
    large_->slices.push_back({std::move(chunk), 0, bytes.size()});
  }
  large_->size += bytes.size();
}

void StoredValue::show(IoSlices& pieces) const {
  if (!large_) return c10d::encode(c10d::Value{small_}, pieces.copied);
  c10d::encode(c10d::Number{static_cast<std::int64_t>(large_->size)}, pieces.copied);
  for (const Slice& slice : large_->slices) {
    pieces.share(slice);
  }
}

StoredValue StoredValue::snapshot() const {
  StoredValue copy;
  copy.small_ = small_;
  if (large_) copy.large_ = std::make_unique<Large>(*large_);
  return copy;
}

std::optional<std::int64_t> parse_counter(std::string_view text) {
  std::int64_t number = 0;
  // As ADD wrote it itself, which is the usual case.
  if (text.size() < bounds::store_number_digits_max) {
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, number);
    if (at == end && error == std::errc{}) return number;
  }
  const std::size_t start = text.find_first_not_of(" \t\n\v\f\r");
  if (start == std::string_view::npos || start > bounds::store_number_blanks_max) {
    return std::nullopt;
  }
  text.remove_prefix(start);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  const std::size_t sign = text.starts_with('-') ? 1 : 0;
  const std::size_t end_of_digits = text.find_first_not_of("0123456789", sign);
  if (std::min(end_of_digits, text.size()) > sign + bounds::store_number_digits_max) {
    return std::nullopt;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

}  // namespace cpprun
