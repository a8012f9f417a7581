// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/deadline_queue.h"

#include <utility>

namespace cpprun {

void DeadlineQueue::plan(const std::string& who, std::optional<TimePoint> when) {
  const auto found = places_.find(who);
  if (!when) {
    if (found != places_.end()) take(found->second);
    return;
  }
  if (found == places_.end()) {
    heap_.push_back({*when, &*places_.emplace(who, heap_.size()).first});
    settle(heap_.size() - 1);
    return;
  }
  heap_[found->second].when = *when;
  settle(found->second);
}

std::optional<TimePoint> DeadlineQueue::deadline_of(const std::string& who) const {
  const auto found = places_.find(who);
  if (found == places_.end()) return std::nullopt;
  return heap_[found->second].when;
}

std::optional<TimePoint> DeadlineQueue::next() const {
  return heap_.empty() ? std::nullopt : std::optional(heap_.front().when);
}

std::vector<std::string> DeadlineQueue::take_due(TimePoint now) {
  std::vector<std::string> due;
  while (!heap_.empty() && heap_.front().when <= now) {
    due.push_back(heap_.front().who->first);
    take(0);
  }
  return due;
}

bool DeadlineQueue::before(std::size_t left, std::size_t right) const {
  const Entry& a = heap_[left];
  const Entry& b = heap_[right];
  return a.when != b.when ? a.when < b.when : a.who->first < b.who->first;
}

void DeadlineQueue::swap(std::size_t left, std::size_t right) {
  std::swap(heap_[left], heap_[right]);
  heap_[left].who->second = left;
  heap_[right].who->second = right;
}

// Moves an entry up past later parents, then down past earlier children. At most one of the two
// loops moves it.
void DeadlineQueue::settle(std::size_t at) {
  while (at > 0 && before(at, (at - 1) / 2)) {
    swap(at, (at - 1) / 2);
    at = (at - 1) / 2;
  }
  while (true) {
    std::size_t first = at;
    for (const std::size_t child : {2 * at + 1, 2 * at + 2}) {
      if (child < heap_.size() && before(child, first)) first = child;
    }
    if (first == at) return;
    swap(at, first);
    at = first;
  }
}

void DeadlineQueue::take(std::size_t at) {
  const std::size_t last = heap_.size() - 1;
  if (at != last) swap(at, last);
  places_.erase(places_.find(heap_.back().who->first));
  heap_.pop_back();
  if (at < heap_.size()) settle(at);
}

}  // namespace cpprun
