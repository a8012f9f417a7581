// SPDX-License-Identifier: BSD-3-Clause
// Those whom a request of somebody else concerns: who waits for a key, and who watches one.

#include <algorithm>
#include <iterator>
#include <utility>

#include "proto/bounds.h"
#include "proto/c10d/encoder.h"
#include "rendezvous/store/store.h"

namespace cpprun {

void Store::on(ConnectionId from, const c10d::Barrier& request, Actions& actions) {
  const std::optional<std::int64_t> arrived = counted(request.key, 1);
  if (!arrived) return drop_non_number(from, "BARRIER", request.key, actions);
  store(request.key, std::to_string(*arrived), actions);
  if (*arrived >= request.world_size) {
    actions.emplace_back(Answer{from, c10d::Waited{}});
    return wake_all(request.key, actions);
  }
  // The counter exists now, which is what a plain WAIT waits for; the barrier itself is not full.
  wake_waits_only(request.key, actions);
  park(from, request.key, true);
}

// --- watches -----------------------------------------------------------------------------------

void Store::on(ConnectionId from, const c10d::WatchKey& request, Actions& actions) {
  std::shared_ptr<Watchers>& watchers = watchers_.try_emplace(request.key).second;
  if (watchers == nullptr) watchers = std::make_shared<Watchers>();
  if (std::ranges::find(*watchers, from) == watchers->end()) {
    watchers->push_back(from);
    Watched& watched = watched_by_[from];
    watched.keys.emplace_back(request.key);
    watched.charges.emplace_back(*ledger_, origin_.account,
                                 bounds::store_entry_bytes + request.key.size());
  }
  actions.emplace_back(Answer{from, c10d::WatchRegistered{}});
}

// --- waits -------------------------------------------------------------------------------------

void Store::park(ConnectionId from, std::string_view key, bool in_barrier) {
  Line& line = waiters_.try_emplace(key);
  Waiters& waiters = in_barrier ? line.second.barriers : line.second.waits;
  // The same key named twice is one thing to wait for. Both come from this very request, so the
  // first of them is still last in line.
  if (!waiters.empty() && waiters.back().connection == from) return;
  Parked& parked = parked_[from];
  // A waiter without a place must not be, even when there is no memory for the place.
  if (parked.places.size() == parked.places.capacity()) {
    parked.places.reserve(std::max<std::size_t>(1, parked.places.size() * 2));
  }
  waiters.push_back({from, in_barrier, parked.places.size()});
  parked.places.push_back({&line, std::prev(waiters.end())});
  if (parked.places.size() == 1) parked.charge = Charge(*ledger_, origin_.account, 0);
  parked.charge.grow(bounds::store_entry_bytes + key.size());
}

// The last of its places, so that the others keep their numbers.
void Store::leave_place(Parked& parked) {
  const Place place = parked.places.back();
  parked.places.pop_back();
  WaitLine& line = place.line->second;
  (place.at->in_barrier ? line.barriers : line.waits).erase(place.at);
  if (line.empty() && !line.is_waking) waiters_.erase(place.line);
}

bool Store::cancel_wait_of(ConnectionId connection) {
  const auto parked = parked_.find(connection);
  if (parked == parked_.end()) return false;
  while (!parked->second.places.empty()) leave_place(parked->second);
  parked_.erase(parked);
  return true;
}

void Store::abandon_wait(ConnectionId from, Actions& actions) {
  let_go();
  if (cancel_wait_of(from)) pass_on_unclaimed(from, actions);
}

// Takes one waiter out of the line of a key that came into being, and answers it if that was all it
// waited for. The line itself stays, even when it is empty now.
Store::Waiters::iterator Store::release(Line& line, Waiters::iterator waiter, Actions& actions) {
  const ConnectionId connection = waiter->connection;
  const auto parked = parked_.find(connection);
  std::vector<Place>& places = parked->second.places;
  const bool is_answered = places.size() == 1 && !parked->second.is_over;
  // There may be no memory for it: then nothing has changed.
  if (is_answered) actions.emplace_back(Answer{connection, c10d::Waited{}});
  // The last place takes the freed one, so that a wait for many keys is not searched each time.
  places[waiter->place] = places.back();
  places[waiter->place].at->place = waiter->place;
  places.pop_back();
  if (is_answered) parked_.erase(parked);
  return (waiter->in_barrier ? line.second.barriers : line.second.waits).erase(waiter);
}

void Store::wake_all(std::string_view key, Actions& actions) {
  if (waiters_.empty()) return;
  wake({waiters_.find(key), true}, actions);
}

void Store::wake_waits_only(std::string_view key, Actions& actions) {
  wake({waiters_.find(key), false}, actions);
}

void Store::wake_one(std::string_view key, Actions& actions) {
  Line* line = waiters_.find(key);
  // Who waits for a key that came into being a moment ago is told of it anyway.
  if (line == nullptr || line->second.is_waking) return;
  // Barriers count arrivals; an entry of a queue that happens to have their name is none.
  Waiters& waiters = line->second.waits;
  for (auto waiter = waiters.begin(); waiter != waiters.end();) {
    // Who waits for other keys as well is not woken by this one: the entry is for the next in line.
    const Parked& parked = parked_.at(waiter->connection);
    const bool is_woken = parked.places.size() == 1 && !parked.is_over;
    if (is_woken) unclaimed_.insert_or_assign(waiter->connection, std::string(key));
    waiter = release(*line, waiter, actions);
    if (is_woken) break;
  }
  if (line->second.empty()) waiters_.erase(line);
}

// The entry for which that connection was woken is still there, and it is not going to take it: the
// next in line gets its chance. Otherwise it would wait although something is there.
void Store::pass_on_unclaimed(ConnectionId connection, Actions& actions) {
  const auto owed = unclaimed_.find(connection);
  if (owed == unclaimed_.end()) return;
  const std::string key = std::move(owed->second);
  unclaimed_.erase(owed);
  if (queues_.contains(key)) wake_one(key, actions);
}

}  // namespace cpprun
