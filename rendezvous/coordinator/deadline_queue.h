// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A priority queue of named deadlines, as a heap that knows the position of each entry. Moving a
// deadline costs O(log n), and reading the next one O(1).

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "proto/clock.h"

namespace cpprun {

class DeadlineQueue {
 public:
  // Sets the deadline of `who`; nothing removes it.
  void plan(const std::string& who, std::optional<TimePoint> when);
  std::optional<TimePoint> next() const;
  std::optional<TimePoint> deadline_of(const std::string& who) const;
  // Removes and returns all entries that are due, earliest first. Equal deadlines are ordered by
  // name.
  std::vector<std::string> take_due(TimePoint now);
  std::size_t size() const { return heap_.size(); }

 private:
  using Places = std::unordered_map<std::string, std::size_t>;
  struct Entry {
    TimePoint when;
    Places::value_type* who;  // in places_, which has its index; the map never moves it
  };
  bool before(std::size_t left, std::size_t right) const;
  void swap(std::size_t left, std::size_t right);
  void settle(std::size_t at);
  void take(std::size_t at);

  std::vector<Entry> heap_;  // Invariant: no entry is earlier than its parent at (index - 1) / 2.
  Places places_;            // index in heap_
};

}  // namespace cpprun
