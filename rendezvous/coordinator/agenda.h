// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The deadlines of many, and whose is next. A heap that knows where each of them is: moving a
// deadline costs the logarithm of their number, and asking for the next costs nothing.

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "proto/clock.h"

namespace cpprun {

class Agenda {
 public:
  // Sets its deadline; nothing: it has none.
  void plan(const std::string& who, std::optional<TimePoint> when);
  std::optional<TimePoint> next() const;
  std::optional<TimePoint> deadline_of(const std::string& who) const;
  // Takes out all that are due, the earliest first; at the same moment, in order of name.
  std::vector<std::string> take_due(TimePoint now);
  std::size_t size() const { return heap_.size(); }

 private:
  using Places = std::unordered_map<std::string, std::size_t>;
  struct Entry {
    TimePoint when;
    Places::value_type* who;  // whose place is kept right; the map never moves it
  };
  bool before(std::size_t left, std::size_t right) const;
  void swap(std::size_t left, std::size_t right);
  void settle(std::size_t at);
  void take(std::size_t at);

  std::vector<Entry> heap_;  // Invariant: nobody comes before their parent, at (index - 1) / 2.
  Places places_;            // of each in heap_
};

}  // namespace cpprun
