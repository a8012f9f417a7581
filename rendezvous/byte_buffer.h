// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A byte queue for partial requests and for replies that the kernel has not accepted yet. It grows
// with the bytes that actually arrive, never by a claimed length, and frees its memory when it
// becomes empty.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

namespace cpprun {

class ByteBuffer {
 public:
  ByteBuffer() = default;
  ByteBuffer(const ByteBuffer&) = delete;
  ByteBuffer& operator=(const ByteBuffer&) = delete;
  ~ByteBuffer() { std::free(data_); }

  std::string_view view() const { return {data_ + start_, end_ - start_}; }
  std::size_t size() const { return end_ - start_; }
  std::size_t capacity() const { return capacity_; }
  bool empty() const { return start_ == end_; }

  void append(std::string_view bytes) {
    if (bytes.empty()) return;
    make_room(bytes.size());
    std::memcpy(data_ + end_, bytes.data(), bytes.size());
    end_ += bytes.size();
  }

  // Returns room for at least `count` more bytes. The caller fills it and then calls grow_by(). The
  // buffer does not grow beyond `size_expected` bytes in total unless `count` requires it.
  char* tail(std::size_t count, std::size_t size_expected = SIZE_MAX) {
    make_room(count, size_expected);
    return data_ + end_;
  }
  std::size_t tail_capacity() const { return capacity_ - end_; }
  void grow_by(std::size_t count) { end_ += count; }

  // Drops the first `count` bytes. When little is left in a large buffer, the rest moves to one of
  // its own size.
  void drop_front(std::size_t count) {
    start_ += count;
    if (empty()) {
      clear();
    } else if (capacity_ > shrink_above && size() < capacity_ / 4) {
      ByteBuffer smaller;
      smaller.append(view());
      swap(smaller);
    }
  }

  void clear() {
    std::free(std::exchange(data_, nullptr));
    start_ = end_ = capacity_ = 0;
  }

  // A malloc'ed block and the range of valid bytes in it.
  struct Memory {
    char* data = nullptr;
    std::size_t start = 0;
    std::size_t end = 0;
    std::size_t capacity = 0;
  };
  // Empties the buffer and passes its memory to the caller, who has to free it.
  Memory release() {
    return {std::exchange(data_, nullptr), std::exchange(start_, 0), std::exchange(end_, 0),
            std::exchange(capacity_, 0)};
  }

  // Takes ownership of memory that came from release().
  void adopt(const Memory& memory) {
    clear();
    data_ = memory.data;
    start_ = memory.start;
    end_ = memory.end;
    capacity_ = memory.capacity;
  }

  void swap(ByteBuffer& other) {
    std::swap(data_, other.data_);
    std::swap(start_, other.start_);
    std::swap(end_, other.end_);
    std::swap(capacity_, other.capacity_);
  }

 private:
  static constexpr std::size_t shrink_above = 64 * 1024;
  static constexpr std::size_t capacity_min = 32;

  void make_room(std::size_t count, std::size_t size_expected = SIZE_MAX) {
    if (capacity_ - end_ >= count) return;
    if (start_ > 0) {
      std::memmove(data_, data_ + start_, size());
      end_ -= std::exchange(start_, 0);
      if (capacity_ - end_ >= count) return;
    }
    // Grow by half: large values cost few copies, and small remainders cost little memory.
    const std::size_t usual = std::max(capacity_ + capacity_ / 2, capacity_min);
    const std::size_t wanted = std::max(end_ + count, std::min(usual, size_expected));
    // realloc lets the kernel move the pages of a large buffer instead of copying them.
    auto* grown = static_cast<char*>(std::realloc(data_, wanted));
    if (grown == nullptr) throw std::bad_alloc();
    data_ = grown;
    capacity_ = wanted;
  }

  char* data_ = nullptr;
  std::size_t start_ = 0;  // the first byte that is still in use
  std::size_t end_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace cpprun
