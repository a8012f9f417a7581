// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Text for a signal handler: grows in a place that was laid out beforehand, allocates nothing, and
// stops at the end of its room.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

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

// Where the program is: the functions that called each other, innermost first. Names come from the
// dynamic symbol tables, so a program linked with -rdynamic (CMake: ENABLE_EXPORTS) shows its own
// functions and not only those of libraries; the rest is `program+0x1f2a`, which addr2line reads.

// Where the exception now being handled by std::terminate was thrown; failing that, here.
std::string backtrace_of_throw();

// Call once before a handler may need it: the first back-trace of a process loads a library.
void prepare_backtrace();

// For a signal handler: allocates nothing, takes no lock of ours. Names stay mangled (c++filt reads
// them). Returns the number of bytes written.
std::size_t backtrace_in_signal(char* text, std::size_t size) noexcept;

// A worker that dies of SEGV, BUS, FPE, ILL or ABRT leaves an error file with the moment of its
// death, which is what tells cause from consequence among many ranks. The signal then takes its
// ordinary course, so the launcher still sees it in the exit status.

// Does nothing for a signal that somebody else (a sanitizer, a crash reporter) already handles.
// Without an error file only a line on stderr is written.
void install_fatal_signal_handlers(const std::string& error_file, int rank);

// The rank that their lines begin with, if it is another one than was said then.
void name_rank_in_signals(int rank);

}  // namespace cpprun
