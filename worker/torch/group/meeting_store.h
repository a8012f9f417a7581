// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Opens the store at which the ranks of a placement meet.

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

// Connects to the store, or serves it if this rank must. Throws LibTorch's exception if that fails
// within `timeout`. Not for Meeting::given.
c10::intrusive_ptr<c10d::Store> open_meeting_store(const Placement& placement,
                                                   std::chrono::milliseconds timeout);

// The file format of a c10d FileStore: records of a key and a value, each preceded by its length in
// four bytes. Keys begin with / or -; LibTorch's own keys end with /. Does not depend on LibTorch.

// Fills `to` with `count` bytes from offset `at`. Returns false if the file is too short.
using ReadAt = std::function<bool(std::uint64_t at, void* to, std::size_t count)>;

// Why a file of `size` bytes is not a store. Absent if it is a store or empty.
std::optional<std::string> store_file_fault(std::uint64_t size, const ReadAt& read_at);

// Whether a store file is left over: at least `ranks` ranks used it and all have closed it.
// LibTorch removes such a file itself. But if two ranks close it at the same moment, each leaves
// the removal to the other, and the next group finds keys of a finished group.
bool is_left_behind(std::uint64_t size, const ReadAt& read_at, int ranks);

// Waits for a listener at the store's address: sets the time limit of each attempt so that all
// attempts together keep one deadline. The caller provides the clock and the I/O. Does not depend
// on LibTorch.

struct ListenerSearch {
  std::function<TimePoint()> now;
  // The number of addresses the store's name resolves to now, or an error.
  std::function<Result<std::size_t>()> resolve;
  // Empty if there is a listener at that address, else the reason. Returns by `end`.
  std::function<std::string(std::size_t address, TimePoint end)> reach;
  // Waits before the next attempt. Returns by `end`.
  std::function<void(TimePoint end)> pause;
};

// Returns an empty string as soon as there is a listener, else the reason at the deadline. Tries
// each address at least once and for at least 1 ms, even after the deadline.
std::string search_listener(const ListenerSearch& search, TimePoint deadline);

}  // namespace cpprun
