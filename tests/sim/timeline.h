// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// All future events in the order of simulated time, then in the order of planning. The heap moves
// only small entries; the callbacks stay in their slots.

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "proto/clock.h"

namespace cpprun::sim {

class Timeline {
 public:
  TimePoint now() const { return now_; }
  std::size_t steps() const { return steps_; }
  bool empty() const { return entries_.empty(); }
  TimePoint next() const { return entries_.top().at; }

  void at(TimePoint when, std::function<void()> what) {
    std::uint32_t slot = 0;
    if (free_.empty()) {
      slot = static_cast<std::uint32_t>(slots_.size());
      slots_.push_back(std::move(what));
    } else {
      slot = free_.back();
      free_.pop_back();
      slots_[slot] = std::move(what);
    }
    entries_.push({when < now_ ? now_ : when, order_++, slot});
  }
  void later(Duration delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }

  void step() {
    const Entry entry = entries_.top();
    entries_.pop();
    now_ = entry.at;
    ++steps_;
    const auto what = std::exchange(slots_[entry.slot], nullptr);
    free_.push_back(entry.slot);
    what();
  }

 private:
  struct Entry {
    TimePoint at;
    std::uint64_t order = 0;
    std::uint32_t slot = 0;
    bool operator<(const Entry& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  TimePoint now_{};
  std::size_t steps_ = 0;
  std::uint64_t order_ = 0;
  std::priority_queue<Entry> entries_;
  std::vector<std::function<void()>> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace cpprun::sim
