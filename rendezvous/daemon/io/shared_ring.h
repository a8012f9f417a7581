// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A queue in shared memory from the daemon to its writer process. An entry that was put reaches the
// reader even if the daemon is killed right after, and to put it costs a copy and no system call.
// Single writer, single reader, each in its own process.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "proto/result.h"

namespace cpprun {

class SharedRing {
 public:
  struct Entry {
    std::uint64_t kind = 0;
    std::uint64_t number = 0;      // of a job
    std::uint64_t generation = 0;  // of its log
    std::uint64_t ticket = 0;
    std::string bytes = {};
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  // Allocates `bytes` of memory, a power of two. It is shared with every child forked from now on.
  static Result<std::unique_ptr<SharedRing>> make(std::size_t bytes);
  ~SharedRing();
  SharedRing(const SharedRing&) = delete;
  SharedRing& operator=(const SharedRing&) = delete;

  enum class Put {
    full,   // no room; the entry was not put
    quiet,  // put; the reader is at work and will get to it
    wake,   // put; the reader had emptied the ring and may be asleep
  };
  Put put(const Entry& entry, std::string_view bytes);

  // The next entry. It stays in the ring until drop().
  std::optional<Entry> next() const;
  void drop();
  bool is_empty() const;
  // Bytes put but not yet taken.
  std::uint64_t held() const;
  // True while an entry is missing because it could not be put, and nothing has replaced it yet.
  void set_incomplete(bool is_incomplete);
  bool is_incomplete() const;

 private:
  // In the shared memory, in front of the bytes.
  struct Shared {
    std::atomic<std::uint64_t> written;  // total bytes ever put
    std::atomic<std::uint64_t> taken;
    std::atomic<std::uint64_t> begun;  // end of the last range that was skipped
    std::atomic<std::uint64_t> incomplete;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  SharedRing(void* memory, std::size_t bytes);
  std::uint64_t begin_if_empty(std::uint64_t written);
  std::uint64_t first() const;
  void copy_in(std::uint64_t at, const void* from, std::size_t count);
  void copy_out(std::uint64_t at, void* to, std::size_t count) const;

  Shared* shared_;
  char* bytes_;
  const std::size_t size_;
};

}  // namespace cpprun
