// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Replies that wait for a client to take them. Short ones are copied into it one behind the other;
// values of the store are only referred to, so that the same large value in the outboxes of many
// clients, or many times in that of one, is one value in memory.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/byte_buffer.h"
#include "rendezvous/store/stored_value.h"

namespace cpprun {

class Outbox {
 public:
  bool empty() const { return copied_.empty() && next_ == shared_.size(); }
  // Bytes that are still to be sent.
  std::size_t size() const { return copied_.size() + shared_left_; }
  // Bytes of memory that are its own.
  std::size_t own_bytes() const { return copied_.capacity() + shared_.capacity() * sizeof(Placed); }

  void append(std::string_view bytes) { copied_.append(bytes); }
  void append(const Pieces& pieces);

  // The next bytes to be sent, where they lie: at most so many pieces of so many bytes in all.
  std::span<const std::string_view> next(std::span<std::string_view> room,
                                         std::size_t bytes_max) const;
  void drop_front(std::size_t count);
  // All of them, copied.
  std::string text() const;

 private:
  struct Placed {
    std::size_t copied_before = 0;  // bytes of copied_ before it, counted from the first ever
    Slice slice;
  };

  ByteBuffer copied_;
  std::size_t copied_taken_ = 0;  // bytes of it that are gone
  std::vector<Placed> shared_;
  std::size_t next_ = 0;         // of shared_: those before it are gone
  std::size_t shared_left_ = 0;  // bytes
};

}  // namespace cpprun
