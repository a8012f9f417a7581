// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/election_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "proto/link/bounds.h"
#include "proto/text.h"
#include "rendezvous/etcd/bounds.h"

namespace cpprun {

election::Ask AskLanes::ask(TimePoint now, election::Lane lane, Step step, etcd::Request request,
                            Duration timeout) {
  State& state = of(lane);
  assert(!state.asked);
  state.id = AskId{++last_id_};
  state.asked = {lane, step, now, endpoint_, life_};
  return {state.id, lane, endpoint_, std::move(request), timeout};
}

std::optional<AskLanes::Asked> AskLanes::take(AskId id) {
  for (State& state : states_) {
    if (state.asked && state.id == id) return std::exchange(state.asked, std::nullopt);
  }
  return std::nullopt;
}

void AskLanes::succeeded(const Asked& asked) {
  of(asked.lane).failures = 0;
}

void AskLanes::failed(TimePoint now, const Asked& asked, bool is_of_member, bool rests) {
  State& state = of(asked.lane);
  ++state.failures;
  if (is_of_member) turn_from(asked);
  // One attempt per member without a pause, then slow enough to keep the log readable.
  const bool is_round = is_of_member ? state.failures % endpoints_ == 0 : rests;
  state.ready = is_round ? now + bounds::etcd_round_pause : now;
}

void AskLanes::turn_from(const Asked& asked) {
  // The other lane may have moved on already.
  if (asked.endpoint == endpoint_) endpoint_ = (endpoint_ + 1) % endpoints_;
}

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
  while (!waiting_.empty() && under_way_.size() < bounds::election_batch_max) {
    const Change& next = waiting_.front();
    bytes += next.record ? next.record->size() : 0;
    if (!under_way_.empty() && bytes > bounds::election_record_bytes_max) break;
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
    if (again != waiting_.end()) return "a record is queued twice";
    if (each->first > each->last || each->last > last_)
      return "a change has an invalid request number";
  }
  if (under_way_.size() > bounds::election_batch_max) return "too many changes are in progress";
  return std::nullopt;
}

Result<void> RecordSizes::keep(const std::string& name, std::size_t bytes) {
  if (name.empty()) return failure("a record without a name");
  if (name.size() > bounds::election_record_name_bytes_max) {
    return failure(fmt::format("the record name \"{}\" has {} bytes, and the maximum is {}",
                               plain_line(name, bounds::name_shown_bytes_max), name.size(),
                               bounds::election_record_name_bytes_max));
  }
  const std::string shown = plain_line(name, bounds::name_shown_bytes_max);
  if (bytes > bounds::election_record_bytes_max) {
    return failure(fmt::format("the record of \"{}\" has {} bytes, and the maximum is {}", shown,
                               bytes, bounds::election_record_bytes_max));
  }
  const auto known = sizes_.find(name);
  if (known == sizes_.end() && sizes_.size() >= bounds::election_records_max) {
    return failure(fmt::format("no room for the record of \"{}\": the maximum is {} records", shown,
                               bounds::election_records_max));
  }
  const std::size_t rest = bytes_ - (known == sizes_.end() ? 0 : known->second);
  if (rest + bytes > bounds::election_records_bytes_max) {
    return failure(fmt::format("with \"{}\" the records would have {} bytes, and the maximum is {}",
                               shown, rest + bytes, bounds::election_records_bytes_max));
  }
  found(name, bytes);
  return {};
}

void RecordSizes::drop(const std::string& name) {
  const auto known = sizes_.find(name);
  if (known == sizes_.end()) return;
  bytes_ -= known->second;
  sizes_.erase(known);
}

void RecordSizes::found(const std::string& name, std::size_t bytes) {
  drop(name);
  sizes_.emplace(name, bytes);
  bytes_ += bytes;
}

void RecordSizes::clear() {
  sizes_.clear();
  bytes_ = 0;
}

}  // namespace cpprun
