// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The store at which the ranks of a placement meet.

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "proto/clock.h"
#include "proto/result.h"
#include "worker/torch/group/placement.h"

namespace c10d {
class Store;
}  // namespace c10d

namespace cpprun {

// Reaches the store, or serves it if this rank has to. Throws what LibTorch throws when that does
// not succeed within `timeout`. Not for Meeting::given.
c10::intrusive_ptr<c10d::Store> open_meeting_store(const Placement& placement,
                                                   std::chrono::milliseconds timeout);

// What the file of a c10d FileStore looks like: records of a key and a value, each with its length
// in four bytes in front; keys begin with / or -, LibTorch's own end with /. Knows no
// LibTorch.

// Fills `to` with `count` bytes from offset `at`; false if they are not there.
using ReadAt = std::function<bool(std::uint64_t at, void* to, std::size_t count)>;

// Why a file of `size` bytes is none; absent if it is one, or empty.
std::optional<std::string> store_file_fault(std::uint64_t size, const ReadAt& read_at);

// Of a store's file: whether whoever used it is gone, `ranks` of them or more. LibTorch removes
// such a file itself; but of two that let go of it in one moment each leaves that to the other, and
// the next to come finds keys of a group that is over.
bool is_left_behind(std::uint64_t size, const ReadAt& read_at, int ranks);

// Waiting for somebody to listen at the store's address: how long each attempt may take, so that
// all of them together keep to one deadline. What it does to the world, and the time, are the
// caller's. Knows no LibTorch.

struct ListenerSearch {
  std::function<TimePoint()> now;
  // How many addresses the store's name has now, or why none.
  std::function<Result<std::size_t>()> resolve;
  // Nothing to say when somebody listens at that one of them, else why not. Back by `end`.
  std::function<std::string(std::size_t address, TimePoint end)> reach;
  // Until somebody may have come. Back by `end`.
  std::function<void(TimePoint end)> pause;
};

// Nothing to say as soon as somebody listens, else why nobody does at the deadline. Everybody is
// asked at least once and for a moment, even where the deadline has passed.
std::string search_listener(const ListenerSearch& search, TimePoint deadline);

}  // namespace cpprun
