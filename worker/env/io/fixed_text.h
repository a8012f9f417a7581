// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Text for a signal handler: grows in a place that was laid out beforehand, allocates nothing, and
// stops at the end of its room.

#include <array>
#include <cstddef>
#include <cstdint>

namespace cpprun {

class FixedText {
 public:
  FixedText(char* room, std::size_t size) noexcept : room_(room), room_size_(size) {}

  FixedText& text(const char* words) noexcept {
    for (; *words != '\0' && size_ < room_size_; ++words) room_[size_++] = *words;
    return *this;
  }
  FixedText& number(std::uintmax_t value, unsigned base = 10) noexcept {
    std::array<char, 24> digits{};
    std::size_t at = digits.size() - 1;
    do {
      digits[--at] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value > 0 && at > 0);
    return text(&digits[at]);
  }
  // Inside a JSON string. What is no plain character is left out, and `reserve` bytes of the room
  // are left for what follows.
  FixedText& quoted(const char* words, std::size_t count, std::size_t reserve) noexcept {
    for (std::size_t i = 0; i < count && size_ + 2 + reserve <= room_size_; ++i) {
      const char c = words[i];
      if (c == '\n') text("\\n");
      if (c < ' ' || c > '~') continue;
      if (c == '"' || c == '\\') room_[size_++] = '\\';
      room_[size_++] = c;
    }
    return *this;
  }

  const char* data() const noexcept { return room_; }
  std::size_t size() const noexcept { return size_; }

 private:
  char* room_;
  std::size_t room_size_;
  std::size_t size_ = 0;
};

}  // namespace cpprun
