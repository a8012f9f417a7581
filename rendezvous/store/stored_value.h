// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A value of the store (StoredValue), and the text format of counters.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/store/bounds.h"
#include "rendezvous/store/memory_accounting.h"

namespace cpprun {

class Chunk {
 public:
  // With room for that many bytes.
  Chunk(MemoryAccounting& accounting, AccountId account, std::size_t capacity);
  // Takes over memory from malloc, of which `used` bytes have been written.
  Chunk(MemoryAccounting& accounting, AccountId account, char* data, std::size_t used,
        std::size_t capacity);
  ~Chunk();
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  std::size_t used() const { return used_; }
  std::size_t room() const { return capacity_ - used_; }
  std::string_view view() const { return {data_, used_}; }
  void write(std::string_view bytes);
  // Gives up the memory. The caller must free it.
  char* release();

 private:
  MemoryAccounting& accounting_;
  char* data_;
  std::size_t used_;
  std::size_t capacity_;
  Reservation charge_;
};

// A part of the bytes of a chunk.
struct Slice {
  std::shared_ptr<Chunk> chunk;
  std::size_t start = 0;
  std::size_t size = 0;
  std::string_view view() const { return chunk->view().substr(start, size); }
};

// Bytes to be sent, some copied and some referenced.
struct IoSlices {
  struct Placed {
    std::size_t at = 0;  // after this many of the copied ones
    Slice slice;
  };
  std::string copied;
  std::vector<Placed> shared;
  std::uint64_t shared_bytes = 0;

  void share(Slice slice);
  std::uint64_t size() const { return copied.size() + shared_bytes; }
  std::string text() const;  // all of it in one string, for tests
  friend bool operator==(const IoSlices& left, const IoSlices& right);
};

// The account that pays for what is stored, and the memory in which it arrived, if that can be
// kept.
struct Origin {
  AccountId account{};
  std::shared_ptr<Chunk> memory{};
  std::size_t copied = 0;  // bytes that were copied out of it
};

// A value of the store. A short one is a string. A longer one is in chunks of memory that may be
// shared: every client that asks for it is sent these very bytes, however many ask and however
// slowly they read, and the value may be replaced meanwhile. Bytes written to a chunk never change;
// more can only be written after them. So an APPEND copies nothing but what it appends.
class StoredValue {
 public:
  StoredValue() = default;
  StoredValue(MemoryAccounting& accounting, Origin& origin, std::string_view bytes) {
    assign(accounting, origin, bytes);
  }

  std::size_t size() const { return large_ ? large_->size : small_.size(); }
  // Bytes that are not in a chunk.
  std::size_t own_bytes() const { return small_.size(); }
  // All of it, in place; nothing if it is in several pieces.
  std::optional<std::string_view> view() const {
    if (!large_) return small_;
    if (large_->slices.size() == 1) return large_->slices.front().view();
    return std::nullopt;
  }
  // Its beginning: at most that many bytes, in one piece.
  std::string beginning(std::size_t bytes_max) const;
  bool equals(std::string_view bytes) const;

  void assign(MemoryAccounting& accounting, Origin& origin, std::string_view bytes);
  void append(MemoryAccounting& accounting, Origin& origin, std::string_view bytes);

  // The value as it is now, whatever happens to this one. Chunks are not copied.
  StoredValue snapshot() const;

  // Appends its length and its bytes, in the format of a reply.
  void show(IoSlices& pieces) const;

 private:
  struct Large {
    std::vector<Slice> slices;
    std::size_t size = 0;
  };
  static Slice slice_of(MemoryAccounting& accounting, Origin& origin, std::string_view bytes);

  std::string small_;
  std::unique_ptr<Large> large_;  // null: small_ is all of it
};

// The decimal text of the counters of ADD and BARRIER.

// More than a number may have: blanks, a sign, digits, and one byte after them. This much of a
// value is enough to parse a counter.
inline constexpr std::size_t counter_bytes_max =
    bounds::store_number_blanks_max + 1 + bounds::store_number_digits_max + 1;

// A number as C's stoll reads it, which upstream's ADD uses. Leading blanks and anything after the
// digits are accepted; no digits at all, or too many, are not.
std::optional<std::int64_t> parse_counter(std::string_view text);

}  // namespace cpprun
