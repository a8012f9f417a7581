// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/change_queue.h"

#include <algorithm>
#include <utility>

#include "proto/etcd_bounds.h"

namespace cpprun {

void ChangeQueue::keep(std::string name, std::string record, std::uint64_t number) {
  add({.name = std::move(name), .record = std::move(record), .first = number, .last = number});
}

void ChangeQueue::drop(std::string name, std::uint64_t number) {
  add({.name = std::move(name), .record = std::nullopt, .first = number, .last = number});
}

void ChangeQueue::publish(std::vector<std::string> synced, std::uint64_t number) {
  add({.name = {}, .record = {}, .synced = std::move(synced), .first = number, .last = number});
}

void ChangeQueue::add(Change change) {
  last_ = change.last;
  const auto same = std::ranges::find(waiting_, change.name, &Change::name);
  if (same == waiting_.end()) {
    waiting_.push_back(std::move(change));
    return;
  }
  change.first = same->first;
  *same = std::move(change);
}

const ChangeQueue::Batch& ChangeQueue::next_batch() {
  if (!under_way_.empty()) return under_way_;
  std::size_t bytes = 0;
  while (!waiting_.empty() && under_way_.size() < bounds::contest_batch_max) {
    const Change& next = waiting_.front();
    bytes += next.record ? next.record->size() : 0;
    if (!under_way_.empty() && bytes > bounds::contest_record_bytes_max) break;
    under_way_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return under_way_;
}

bool ChangeQueue::narrow() {
  if (under_way_.size() < 2) return false;
  while (under_way_.size() > 1) {
    Change change = std::move(under_way_.back());
    under_way_.pop_back();
    const auto newer = std::ranges::find(waiting_, change.name, &Change::name);
    if (newer == waiting_.end()) {
      waiting_.push_front(std::move(change));
    } else {
      newer->first = change.first;
    }
  }
  return true;
}

ChangeQueue::Change ChangeQueue::give_up() {
  Change change = std::move(under_way_.back());
  under_way_.pop_back();
  return change;
}

std::uint64_t ChangeQueue::through() const {
  std::uint64_t through = last_;
  const auto before = [&through](const Change& each) {
    through = std::min(through, each.first - 1);
  };
  std::ranges::for_each(waiting_, before);
  std::ranges::for_each(under_way_, before);
  return through;
}

void ChangeQueue::clear() {
  waiting_.clear();
  under_way_.clear();
}

std::optional<std::string> ChangeQueue::check() const {
  for (auto each = waiting_.begin(); each != waiting_.end(); ++each) {
    const auto again = std::find_if(each + 1, waiting_.end(),
                                    [&](const Change& other) { return other.name == each->name; });
    if (again != waiting_.end()) return "a record waits twice to be written";
    if (each->first > each->last || each->last > last_) return "a change has no number of a wish";
  }
  if (under_way_.size() > bounds::contest_batch_max) return "more is under way than may be";
  return std::nullopt;
}

}  // namespace cpprun
