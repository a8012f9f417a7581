// SPDX-License-Identifier: BSD-3-Clause
// What may concern more connections and keys than one turn should look at: whom a new value wakes,
// who is told of a change, what somebody leaves behind. Little of it is done at once; the rest
// waits for go_on(), and nothing else is asked of the store meanwhile.

#include <algorithm>
#include <utility>

#include "proto/bounds.h"
#include "proto/c10d/encoder.h"
#include "proto/machine.h"
#include "rendezvous/store/store.h"

namespace cpprun {

namespace {

// What it costs to tell one connection of that, beside telling it anything at all.
std::size_t steps_for_each(const Pieces& text) {
  constexpr std::size_t bytes_of_step = 1024;
  return 1 + text.shared.size() + text.copied.size() / bytes_of_step;
}

}  // namespace

// What came earlier has to be done first, or who watches two keys would hear of them in the wrong
// order.
bool Store::may_tell_at_once(std::size_t steps) {
  if (!fan_outs_.empty() || told_at_once_ + steps > bounds::store_told_at_once_max) return false;
  told_at_once_ += steps;
  return true;
}

void Store::go_on(std::size_t steps, Actions& actions) {
  let_go();
  while (steps > 0 && !departures_.empty()) {
    if (tidy_some(departures_.front(), steps)) departures_.pop_front();
  }
  while (steps > 0 && !fan_outs_.empty()) {
    const bool is_done =
        std::visit(Overloaded{
                       [&](const Waking& waking) { return wake_some(waking, steps, actions); },
                       [&](Notice& notice) { return tell_some(notice, steps, actions); },
                   },
                   fan_outs_.front());
    if (is_done) fan_outs_.pop_front();
  }
}

// --- who is woken --------------------------------------------------------------------------------

void Store::wake(Waking waking, Actions& actions) {
  if (waking.line == nullptr || waking.line->second.is_waking) return;
  WaitLine& line = waking.line->second;
  std::size_t all = line.waits.size() + (waking.with_barriers ? line.barriers.size() : 0);
  if (all == 0) return;
  const bool is_at_once = may_tell_at_once(all);
  // Where there is no memory half way, go_on() goes on with it.
  fan_outs_.emplace_back(waking);
  line.is_waking = true;
  if (!is_at_once) return;
  (void)wake_some(waking, all, actions);  // which is all of them
  fan_outs_.pop_back();
}

bool Store::wake_some(const Waking& waking, std::size_t& steps, Actions& actions) {
  WaitLine& line = waking.line->second;
  for (Waiters* waiters : {&line.waits, &line.barriers}) {
    if (waiters == &line.barriers && !waking.with_barriers) break;
    for (; !waiters->empty(); --steps) {
      if (steps == 0) return false;
      release(*waking.line, waiters->begin(), actions);
    }
  }
  line.is_waking = false;
  if (line.empty()) waiters_.erase(waking.line);
  return true;
}

// --- who is told of a change ---------------------------------------------------------------------

void Store::notify(c10d::Change change, std::string_view key, const StoredValue& old_value,
                   const StoredValue& new_value, Actions& actions) {
  const auto* found = watchers_.find(key);
  if (found == nullptr) return;
  const std::shared_ptr<Watchers>& watchers = found->second;
  const auto old_view = old_value.view();
  const auto new_view = new_value.view();
  const bool is_short =
      old_view && new_view &&
      key.size() + old_view->size() + new_view->size() < bounds::store_shared_bytes_min;
  if (is_short && may_tell_at_once(watchers->size())) {
    // A later entry of the same MULTI_SET may change the value again before this notice is sent.
    const std::string& old_text = retained_.emplace_back(*old_view);
    const std::string& new_text = retained_.emplace_back(*new_view);
    for (const ConnectionId watcher : *watchers) {
      actions.emplace_back(Answer{watcher, c10d::WatchNotice{change, key, old_text, new_text}});
    }
    return;
  }
  Notice notice{notice_text(change, key, old_value, new_value), watchers};
  if (std::size_t all = watchers->size() * steps_for_each(notice.text); may_tell_at_once(all)) {
    (void)tell_some(notice, all, actions);  // which is all of them
  } else {
    fan_outs_.emplace_back(std::move(notice));
  }
}

// Refers to the values where they lie; one that is short for that is copied, once for everybody.
Pieces Store::notice_text(c10d::Change change, std::string_view key, const StoredValue& old_value,
                          const StoredValue& new_value) {
  Pieces text;
  text.copied.push_back(static_cast<char>(change));
  c10d::encode(c10d::Value{key}, text.copied);
  old_value.show(text);
  new_value.show(text);
  return text;
}

bool Store::tell_some(Notice& notice, std::size_t& steps, Actions& actions) {
  const std::size_t for_each = steps_for_each(notice.text);
  for (; notice.next < notice.watchers->size(); ++notice.next) {
    if (steps == 0) return false;
    actions.emplace_back(Parcel{(*notice.watchers)[notice.next], notice.text});
    steps -= std::min(steps, for_each);
  }
  return true;
}

// --- who leaves ----------------------------------------------------------------------------------

bool Store::abandon_large_wait(ConnectionId from) {
  if (parked_.empty()) return false;
  const auto parked = parked_.find(from);
  if (parked == parked_.end() || parked->second.places.size() <= bounds::store_told_at_once_max) {
    return false;
  }
  parked->second.is_over = true;
  departures_.push_back({from});
  return true;
}

void Store::forget(ConnectionId connection, Actions& actions) {
  let_go();
  const Departure departure{connection, true};
  const auto parked = parked_.find(connection);
  if (parked != parked_.end()) parked->second.is_over = true;
  // Many may leave in one turn.
  std::size_t steps = bounds::store_told_at_once_max / 8;
  if (!departures_.empty() || !tidy_some(departure, steps)) departures_.push_back(departure);
  pass_on_unclaimed(connection, actions);
}

bool Store::tidy_some(const Departure& departure, std::size_t& steps) {
  if (const auto parked = parked_.find(departure.connection); parked != parked_.end()) {
    for (; !parked->second.places.empty(); --steps) {
      if (steps == 0) return false;
      leave_place(parked->second);
    }
    parked_.erase(parked);
  }
  const auto watched = departure.with_watches ? watched_by_.find(departure.connection)  //
                                              : watched_by_.end();
  if (watched == watched_by_.end()) return true;
  unwatch(watched->second, departure.connection, steps);
  if (!watched->second.keys.empty()) return false;
  watched_by_.erase(watched);
  return true;
}

void Store::unwatch(Watched& watched, ConnectionId connection, std::size_t& steps) {
  // Moving so many ids costs about as much as finding a key.
  constexpr std::size_t ids_of_step = 512;
  while (steps > 0 && !watched.keys.empty()) {
    auto* const line = watchers_.find(watched.keys.back());
    std::shared_ptr<Watchers>& watchers = line->second;
    // A notice that is on its way to them keeps its list as it was.
    if (watchers.use_count() > 1) watchers = std::make_shared<Watchers>(*watchers);
    std::erase(*watchers, connection);
    steps -= std::min(steps, 1 + watchers->size() / ids_of_step);
    if (watchers->empty()) watchers_.erase(line);
    watched.keys.pop_back();
    watched.charges.pop_back();
  }
}

// --- the end of all ------------------------------------------------------------------------------

bool Store::Stored::free_some(std::size_t& work) {
  work -= std::min(work, value.size() / bounds::store_bytes_freed_of_work);
  return true;
}

bool Store::Queue::free_some(std::size_t& work) {
  for (; !entries.empty(); entries.pop_front()) {
    if (work < bounds::store_work_of_key) return false;
    work -= bounds::store_work_of_key;
    (void)entries.front().free_some(work);  // goes with the entry
  }
  return true;
}

bool Store::WaitLine::free_some(std::size_t& work) {
  for (Waiters* waiters : {&waits, &barriers}) {
    for (; !waiters->empty(); waiters->pop_front()) {
      if (work < bounds::store_work_of_key) return false;
      work -= bounds::store_work_of_key;
    }
  }
  return true;
}

class Store::BuriedWatches : public Remains {
 public:
  explicit BuriedWatches(std::unordered_map<ConnectionId, Watched> watched)
      : watched_(std::move(watched)) {}
  bool free_some(std::size_t& work) override {
    while (!watched_.empty()) {
      Watched& first = watched_.begin()->second;
      for (; !first.keys.empty(); first.keys.pop_back(), first.charges.pop_back()) {
        if (work < bounds::store_work_of_key) return false;
        work -= bounds::store_work_of_key;
      }
      watched_.erase(watched_.begin());
    }
    return true;
  }

 private:
  std::unordered_map<ConnectionId, Watched> watched_;
};

void Store::clear() {
  // They point at what is buried below.
  fan_outs_.clear();
  departures_.clear();
  parked_.clear();
  if (!watched_by_.empty()) {
    ledger_->bury(std::make_unique<BuriedWatches>(std::exchange(watched_by_, {})));
  }
  unclaimed_.clear();
  listed_.clear();
  retained_.clear();
  retained_values_.clear();
  values_.bury(*ledger_);
  queues_.bury(*ledger_);
  waiters_.bury(*ledger_);
  watchers_.bury(*ledger_);
}

}  // namespace cpprun
