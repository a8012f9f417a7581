// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Waiting for somebody to listen at the store's address: how long each attempt may take, so that
// all of them together keep to one deadline. What it does to the world, and the time, are the
// caller's. Knows no LibTorch.

#include <cstddef>
#include <functional>
#include <string>

#include "proto/clock.h"
#include "proto/result.h"

namespace cpprun {

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
