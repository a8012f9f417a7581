// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Text for a signal handler. Appends to a given buffer, allocates nothing, and truncates at the end
// of the buffer.

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
  // Appends the inside of a JSON string. Drops characters that are not printable ASCII, and keeps
  // `reserve` bytes of the buffer free.
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

// The call stack, innermost function first. Names come from the dynamic symbol tables: a program
// linked with -rdynamic (CMake: ENABLE_EXPORTS) shows its own functions, not only those of
// libraries. Other frames are `program+0x1f2a`, for addr2line.

// The stack at the throw of the exception that std::terminate now handles; otherwise the current
// stack.
std::string backtrace_of_throw();

// A frame as Python's faulthandler prints it: `  File "libc.so.6", line 0 in pause`; without a
// name `  File "program+0x1f2a", line 0 in ?`.
std::string traceback_line(void* frame);

// Call it once before a handler may run: the first back-trace of a process loads a library.
void prepare_backtrace();

// For signal handlers: allocates nothing and takes no lock of this library. Names stay mangled
// (c++filt demangles them). Returns the number of bytes written.
std::size_t backtrace_in_signal(char* text, std::size_t size) noexcept;

// A worker that dies of SEGV, BUS, FPE, ILL or ABRT leaves an error file with the time of death,
// which separates cause from consequence among many ranks. The signal then takes its default
// action, so that the launcher sees it in the exit status.

// Skips a signal that already has a handler (a sanitizer, a crash reporter). Without an error file,
// only writes a line to stderr.
void install_fatal_signal_handlers(const std::string& error_file, int rank);

// Changes the rank with which the handlers' lines begin.
void name_rank_in_signals(int rank);

}  // namespace cpprun
