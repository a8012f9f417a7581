// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a daemon hands to the process beside it, in memory that both have: one side puts, the other
// takes. What was put is there for the other side whatever becomes of this one in the next moment,
// and to put it costs a copy and no system call. It has one writer and one reader, each a process.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "proto/result.h"

namespace cpprun {

class LogRing {
 public:
  struct Entry {
    std::uint64_t kind = 0;
    std::uint64_t number = 0;      // of a job
    std::uint64_t generation = 0;  // of its log
    std::uint64_t ticket = 0;
    std::string bytes = {};
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  // Memory for so many bytes, a power of two, that is shared with every child from now on.
  static Result<std::unique_ptr<LogRing>> make(std::size_t bytes);
  ~LogRing();
  LogRing(const LogRing&) = delete;
  LogRing& operator=(const LogRing&) = delete;

  enum class Put {
    full,   // it was not put
    quiet,  // it was; the other side is at work, and will come to it
    wake,   // it was; the other side had taken everything, and may be asleep
  };
  Put put(const Entry& entry, std::string_view bytes);

  // The next entry, which stays until drop().
  std::optional<Entry> next() const;
  void drop();
  bool is_empty() const;
  // Bytes that were put and not taken yet.
  std::uint64_t held() const;
  // Whether something should have been put and was not, and nothing has made up for it.
  void set_incomplete(bool is_incomplete);
  bool is_incomplete() const;

 private:
  // In the shared memory, before the bytes.
  struct Shared {
    std::atomic<std::uint64_t> written;  // bytes that were ever put
    std::atomic<std::uint64_t> taken;
    std::atomic<std::uint64_t> begun;  // the last that was left out is before it
    std::atomic<std::uint64_t> incomplete;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  LogRing(void* memory, std::size_t bytes);
  std::uint64_t begin_if_empty(std::uint64_t written);
  std::uint64_t first() const;
  void copy_in(std::uint64_t at, const void* from, std::size_t count);
  void copy_out(std::uint64_t at, void* to, std::size_t count) const;

  Shared* shared_;
  char* bytes_;
  const std::size_t size_;
};

}  // namespace cpprun
