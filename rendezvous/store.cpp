#include "rendezvous/store.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

namespace cpprun {
namespace {

// A number as C's stoll reads it, which is what upstream's ADD uses: blanks before and anything
// after the digits are tolerated; no digits at all, or too many, are not.
std::optional<std::int64_t> parse_number(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t\n\v\f\r");
  if (start == std::string_view::npos) return std::nullopt;
  text.remove_prefix(start);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

// Overflow wraps, as observed upstream.
std::int64_t wrapping_sum(std::int64_t left, std::int64_t right) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(left) +
                                   static_cast<std::uint64_t>(right));
}

// A number as text without an allocation.
class Decimal {
 public:
  explicit Decimal(std::int64_t number)
      : end_(std::to_chars(text_.data(), text_.data() + text_.size(), number).ptr) {}
  std::string_view text() const {
    return {text_.data(), static_cast<std::size_t>(end_ - text_.data())};
  }

 private:
  std::array<char, 24> text_{};
  char* end_;
};

void answer(ConnectionId to, c10d::Reply reply, Effects& effects) {
  effects.emplace_back(Answer{to, reply});
}

}  // namespace

void Store::apply(ConnectionId from, const c10d::Request& request, Effects& effects) {
  retained_.clear();
  // Whoever asks for something else no longer waits. A client of dialect A or B that timed out says
  // nothing about it, and would take the late answer for the beginning of its next reply.
  if (!parked_.empty() && cancel_wait_of(from)) pass_on_unclaimed(from, effects);
  std::visit([&](const auto& asked) { on(from, asked, effects); }, request);
}

void Store::forget(ConnectionId connection, Effects& effects) {
  retained_.clear();
  (void)cancel_wait_of(connection);
  if (const auto watched = watched_by_.find(connection); watched != watched_by_.end()) {
    for (const std::string& key : watched->second) {
      const auto watchers = watchers_.find(key);
      std::erase(watchers->second, connection);
      if (watchers->second.empty()) watchers_.erase(watchers);
    }
    watched_by_.erase(watched);
  }
  pass_on_unclaimed(connection, effects);
}

void Store::clear() {
  *this = Store();
}

// --- requests ----------------------------------------------------------------------------------

void Store::on(ConnectionId /*from*/, const c10d::Validate& /*request*/, Effects& /*effects*/) {}

void Store::on(ConnectionId from, const c10d::Ping& request, Effects& effects) {
  answer(from, c10d::Pong{request.nonce}, effects);
}

void Store::on(ConnectionId /*from*/, const c10d::Set& request, Effects& effects) {
  store(request.key, request.value, effects);
  wake_all(request.key, effects);
}

void Store::on(ConnectionId from, const c10d::CompareSet& request, Effects& effects) {
  const auto found = values_.find(request.key);
  if (found == values_.end() && !request.expected.empty()) {
    // Upstream's answer, though nothing of the kind is stored; its own tests ask for it.
    return answer(from, c10d::Value{request.expected}, effects);
  }
  if (found != values_.end() && found->second != request.expected) {
    return answer(from, c10d::Value{found->second}, effects);
  }
  store(request.key, request.desired, effects);
  answer(from, c10d::Value{request.desired}, effects);
  wake_all(request.key, effects);
}

void Store::on(ConnectionId from, const c10d::Get& request, Effects& effects) {
  answer(from, c10d::Value{value_or_empty(request.key)}, effects);
}

void Store::on(ConnectionId from, const c10d::Add& request, Effects& effects) {
  const std::optional<std::int64_t> sum = counted(request.key, request.delta);
  if (!sum) return drop_non_number(from, "ADD", request.key, effects);
  answer(from, c10d::Number{*sum}, effects);
  store(request.key, Decimal(*sum).text(), effects);
  wake_all(request.key, effects);
}

void Store::on(ConnectionId from, const c10d::Check& request, Effects& effects) {
  const bool ready = std::ranges::all_of(request.keys, [&](auto key) { return exists(key); });
  answer(from, c10d::Checked{ready}, effects);
}

void Store::on(ConnectionId from, const c10d::Wait& request, Effects& effects) {
  for (const c10d::Bytes key : request.keys) {
    if (!exists(key)) park(from, key, false);
  }
  if (!parked_.contains(from)) answer(from, c10d::Waited{}, effects);
}

void Store::on(ConnectionId from, const c10d::CancelWait& /*request*/, Effects& effects) {
  answer(from, c10d::Waited{.cancelled = true}, effects);
  pass_on_unclaimed(from, effects);
}

void Store::on(ConnectionId from, const c10d::GetNumKeys& /*request*/, Effects& effects) {
  answer(from, c10d::Number{static_cast<std::int64_t>(values_.size())}, effects);
}

void Store::on(ConnectionId from, const c10d::DeleteKey& request, Effects& effects) {
  const auto found = values_.find(request.key);
  if (found == values_.end()) return answer(from, c10d::Number{0}, effects);
  if (!watchers_.empty()) {
    retained_.push_back(std::move(found->second));
    notify(c10d::Change::deleted, request.key, retained_.back(), {}, effects);
  }
  values_.erase(found);
  answer(from, c10d::Number{1}, effects);
}

void Store::on(ConnectionId /*from*/, const c10d::Append& request, Effects& effects) {
  if (const auto found = values_.find(request.key); found == values_.end()) {
    store(request.key, request.value, effects);
  } else if (watchers_.empty()) {
    found->second.append(request.value);
  } else {
    store(request.key, found->second + std::string(request.value), effects);
  }
  wake_all(request.key, effects);
}

void Store::on(ConnectionId from, const c10d::MultiGet& request, Effects& effects) {
  listed_.clear();
  for (const c10d::Bytes key : request.keys) listed_.push_back(value_or_empty(key));
  answer(from, c10d::Values{listed_}, effects);
}

void Store::on(ConnectionId /*from*/, const c10d::MultiSet& request, Effects& effects) {
  for (const c10d::KeyValue& entry : request.entries) {
    store(entry.key, entry.value, effects);
    wake_all(entry.key, effects);
  }
}

void Store::on(ConnectionId /*from*/, const c10d::QueuePush& request, Effects& effects) {
  auto found = queues_.find(request.key);
  if (found == queues_.end()) found = queues_.try_emplace(std::string(request.key)).first;
  found->second.emplace_back(request.value);
  wake_one(found->first, effects);
}

void Store::on(ConnectionId from, const c10d::QueuePop& request, Effects& effects) {
  if (const auto owed = unclaimed_.find(from);
      owed != unclaimed_.end() && owed->second == request.key) {
    unclaimed_.erase(owed);
  }
  const auto found = queues_.find(request.key);
  if (found == queues_.end()) return answer(from, c10d::Popped{}, effects);
  const auto length = static_cast<std::int64_t>(found->second.size());
  retained_.push_back(std::move(found->second.front()));
  found->second.pop_front();
  if (found->second.empty()) queues_.erase(found);
  answer(from, c10d::Popped{length, retained_.back()}, effects);
}

void Store::on(ConnectionId from, const c10d::QueueLen& request, Effects& effects) {
  const auto found = queues_.find(request.key);
  const std::size_t length = found == queues_.end() ? 0 : found->second.size();
  answer(from, c10d::Number{static_cast<std::int64_t>(length)}, effects);
}

void Store::on(ConnectionId from, const c10d::ListKeys& /*request*/, Effects& effects) {
  listed_.clear();
  for (const auto& [key, value] : values_) listed_.push_back(key);
  answer(from, c10d::Keys{listed_}, effects);
}

void Store::on(ConnectionId from, const c10d::Barrier& request, Effects& effects) {
  const std::optional<std::int64_t> arrived = counted(request.key, 1);
  if (!arrived) return drop_non_number(from, "BARRIER", request.key, effects);
  store(request.key, Decimal(*arrived).text(), effects);
  if (*arrived >= request.world_size) {
    answer(from, c10d::Waited{}, effects);
    return wake_all(request.key, effects);
  }
  // The counter exists now, which is what a plain WAIT waits for; the barrier itself is not full.
  wake_waits_only(request.key, effects);
  park(from, request.key, true);
}

void Store::on(ConnectionId from, const c10d::WatchKey& request, Effects& effects) {
  auto watchers = watchers_.find(request.key);
  if (watchers == watchers_.end()) {
    watchers = watchers_.try_emplace(std::string(request.key)).first;
  }
  if (std::ranges::find(watchers->second, from) == watchers->second.end()) {
    watchers->second.push_back(from);
    watched_by_[from].emplace_back(request.key);
  }
  answer(from, c10d::WatchRegistered{}, effects);
}

// --- values ------------------------------------------------------------------------------------

bool Store::exists(std::string_view key) const {
  return values_.find(key) != values_.end() ||
         (!queues_.empty() && queues_.find(key) != queues_.end());
}

std::string_view Store::value_or_empty(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? std::string_view{} : std::string_view{found->second};
}

std::optional<std::int64_t> Store::counted(std::string_view key, std::int64_t delta) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return delta;
  const std::optional<std::int64_t> number = parse_number(found->second);
  if (!number) return std::nullopt;
  return wrapping_sum(*number, delta);
}

void Store::store(std::string_view key, std::string_view value, Effects& effects) {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    values_.try_emplace(std::string(key), value);
    if (!watchers_.empty()) notify(c10d::Change::created, key, {}, value, effects);
    return;
  }
  if (watchers_.empty()) {
    found->second.assign(value);
    return;
  }
  retained_.push_back(std::exchange(found->second, std::string(value)));
  notify(c10d::Change::updated, key, retained_.back(), found->second, effects);
}

void Store::notify(c10d::Change change, std::string_view key, std::string_view old_value,
                   std::string_view new_value, Effects& effects) {
  const auto watchers = watchers_.find(key);
  if (watchers == watchers_.end()) return;
  // A later entry of the same MULTI_SET may change the value again before this notice is sent.
  if (!new_value.empty()) new_value = retained_.emplace_back(new_value);
  for (const ConnectionId watcher : watchers->second) {
    answer(watcher, c10d::WatchNotice{change, key, old_value, new_value}, effects);
  }
}

void Store::drop_non_number(ConnectionId from, std::string_view operation, std::string_view key,
                            Effects& effects) {
  // A key may hold anything, and is long enough to fill a screen.
  constexpr std::size_t shown_bytes_max = 80;
  effects.emplace_back(Drop{from, std::string(operation) + " on key \"" +
                                      std::string(key.substr(0, shown_bytes_max)) +
                                      "\", whose value is not a number"});
}

// --- waits -------------------------------------------------------------------------------------

void Store::park(ConnectionId from, std::string_view key, bool in_barrier) {
  auto line = waiters_.find(key);
  if (line == waiters_.end()) line = waiters_.try_emplace(std::string(key)).first;
  Waiters& waiters = line->second;
  // The same key named twice is one thing to wait for. Both come from this very request, so the
  // first of them is still last in line.
  if (!waiters.empty() && waiters.back().connection == from) return;
  Parked& places = parked_[from];
  waiters.push_back({from, in_barrier, places.size()});
  places.push_back({&*line, std::prev(waiters.end())});
}

bool Store::cancel_wait_of(ConnectionId connection) {
  const auto parked = parked_.find(connection);
  if (parked == parked_.end()) return false;
  for (const Place& place : parked->second) {
    place.line->second.erase(place.at);
    if (place.line->second.empty()) waiters_.erase(waiters_.find(place.line->first));
  }
  parked_.erase(parked);
  return true;
}

// Takes one waiter out of the line of a key that came into being, and answers it if that was all it
// waited for. The line itself stays, even when it is empty now.
Store::Waiters::iterator Store::release(Line& line, Waiters::iterator waiter, Effects& effects) {
  const ConnectionId connection = waiter->connection;
  const auto parked = parked_.find(connection);
  Parked& places = parked->second;
  // The last place takes the freed one, so that a wait for many keys is not searched each time.
  places[waiter->place] = places.back();
  places[waiter->place].at->place = waiter->place;
  places.pop_back();
  if (places.empty()) {
    parked_.erase(parked);
    answer(connection, c10d::Waited{}, effects);
  }
  return line.second.erase(waiter);
}

void Store::wake_all(std::string_view key, Effects& effects) {
  if (waiters_.empty()) return;
  const auto line = waiters_.find(key);
  if (line == waiters_.end()) return;
  for (auto waiter = line->second.begin(); waiter != line->second.end();) {
    waiter = release(*line, waiter, effects);
  }
  waiters_.erase(line);
}

void Store::wake_waits_only(std::string_view key, Effects& effects) {
  const auto line = waiters_.find(key);
  if (line == waiters_.end()) return;
  for (auto waiter = line->second.begin(); waiter != line->second.end();) {
    waiter = waiter->in_barrier ? std::next(waiter) : release(*line, waiter, effects);
  }
  if (line->second.empty()) waiters_.erase(line);
}

void Store::wake_one(std::string_view key, Effects& effects) {
  const auto line = waiters_.find(key);
  if (line == waiters_.end()) return;
  // Barriers count arrivals; an entry of a queue that happens to have their name is none.
  const auto waiter = std::ranges::find(line->second, false, &Waiter::in_barrier);
  if (waiter == line->second.end()) return;
  unclaimed_.insert_or_assign(waiter->connection, std::string(key));
  release(*line, waiter, effects);
  if (line->second.empty()) waiters_.erase(line);
}

// The entry for which that connection was woken is still there, and it is not going to take it: the
// next in line gets its chance. Otherwise it would wait although something is there.
void Store::pass_on_unclaimed(ConnectionId connection, Effects& effects) {
  const auto owed = unclaimed_.find(connection);
  if (owed == unclaimed_.end()) return;
  const std::string key = std::move(owed->second);
  unclaimed_.erase(owed);
  if (queues_.contains(key)) wake_one(key, effects);
}

}  // namespace cpprun
