// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "proto/c10d/bounds.h"
#include "proto/c10d/codec.h"
#include "proto/link/bounds.h"
#include "proto/state_machine.h"
#include "proto/text.h"
#include "rendezvous/client/bounds.h"
#include "rendezvous/store/bounds.h"
#include "rendezvous/store/stored_value.h"

namespace cpprun {

namespace {

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

void answer(ConnectionId to, c10d::Reply reply, Actions& actions) {
  actions.emplace_back(Answer{to, reply});
}

// The value, if a reply is to have a copy of it; longer ones are shared.
std::optional<std::string_view> copied_in_reply(const StoredValue& value) {
  if (value.size() >= bounds::store_shared_reply_bytes_min) return std::nullopt;
  return value.view();
}

}  // namespace

Store::Store(std::shared_ptr<MemoryAccounting> accounting)
    : accounting_(std::move(accounting)),
      values_(accounting_->seed()),
      queues_(accounting_->seed()),
      waiters_(accounting_->seed()),
      watchers_(accounting_->seed()) {}

Store::~Store() {
  if (accounting_) clear();  // unless it was moved away
}

Store& Store::operator=(Store&& other) noexcept {
  swap(other);
  return *this;
}

void Store::swap(Store& other) noexcept {
  std::swap(accounting_, other.accounting_);
  std::swap(values_, other.values_);
  std::swap(queues_, other.queues_);
  std::swap(waiters_, other.waiters_);
  std::swap(parked_, other.parked_);
  std::swap(watchers_, other.watchers_);
  std::swap(watched_by_, other.watched_by_);
  std::swap(unclaimed_, other.unclaimed_);
  std::swap(fan_outs_, other.fan_outs_);
  std::swap(departures_, other.departures_);
  std::swap(takes_all_, other.takes_all_);
  std::swap(has_process_group_, other.has_process_group_);
  std::swap(listed_, other.listed_);
  std::swap(retained_, other.retained_);
  std::swap(retained_values_, other.retained_values_);
}

void Store::keep_books_in(const std::shared_ptr<MemoryAccounting>& accounting) {
  if (accounting_ == accounting) return;
  if (values_.empty() && queues_.empty() && parked_.empty() && watched_by_.empty()) {
    *this = Store(accounting);
    if (namespaces_) namespaces_->set_seed(accounting->seed());
  }
}

void Store::apply(ConnectionId from, const c10d::Request& request, Actions& actions,
                  Origin origin) {
  let_go();
  told_at_once_ = 0;
  // A client that sends another request waits no longer. A client of dialect A or B that timed out
  // sends nothing about it, and would take the late answer for the start of its next reply.
  if (!parked_.empty() && cancel_wait_of(from)) wake_next_waiter(from, actions);
  origin_ = std::move(origin);
  client_ = from;
  // The most frequent request adds nothing, so it need not check for room.
  if (const auto* get = std::get_if<c10d::Get>(&request)) {
    on(from, *get, actions);
  } else if (std::string objection = objection_to(request); !objection.empty()) {
    actions.emplace_back(Disconnect{from, std::move(objection)});
  } else {
    std::visit([&](const auto& asked) { on(from, asked, actions); }, request);
  }
  origin_.memory.reset();
}

void Store::clear_retained() {
  retained_.clear();
  retained_values_.clear();
}

bool Store::apply_alone(ConnectionId from, const c10d::Request& request, AccountId account,
                        std::string& reply) {
  let_go();
  if (takes_all_ || (!parked_.empty() && parked_.contains(from))) return false;
  if (const auto* get = std::get_if<c10d::Get>(&request)) {
    const StoredValue* value = value_of(get->key);
    const auto text = value == nullptr ? std::string_view() : copied_in_reply(*value);
    if (text) c10d::encode(c10d::Value{*text}, reply);
    return text.has_value();
  }
  const auto* const set = std::get_if<c10d::Set>(&request);
  const auto* const add = std::get_if<c10d::Add>(&request);
  if ((set == nullptr && add == nullptr) || !waiters_.empty() || !watchers_.empty() ||
      namespaces_ != nullptr) {
    return false;
  }
  const std::string_view key = set != nullptr ? set->key : add->key;
  const std::size_t bytes = set != nullptr ? set->value.size() : bounds::store_number_digits_max;
  if (bytes >= bounds::store_shared_bytes_min ||
      !accounting_->has_room(account, bytes + key.size() + bounds::store_entry_bytes, 1)) {
    return false;
  }
  origin_.account = account;
  auto* const found = values_.find(key);
  if (set != nullptr) {
    store_unwatched(found, key, set->value);
    return true;
  }
  const std::optional<std::int64_t> sum = counted(found, add->delta);
  if (!sum) return false;
  c10d::encode(c10d::Number{*sum}, reply);
  store_unwatched(found, key, Decimal(*sum).text());
  return true;
}

// --- requests ----------------------------------------------------------------------------------

void Store::on(ConnectionId /*from*/, const c10d::Validate& /*request*/, Actions& /*actions*/) {}

void Store::on(ConnectionId from, const c10d::Ping& request, Actions& actions) {
  answer(from, c10d::Pong{request.nonce}, actions);
}

void Store::on(ConnectionId /*from*/, const c10d::Set& request, Actions& actions) {
  store(request.key, request.value, actions);
  wake_all(request.key, actions);
}

void Store::on(ConnectionId from, const c10d::CompareSet& request, Actions& actions) {
  const StoredValue* found = value_of(request.key);
  if (found == nullptr && !request.expected.empty()) {
    // Upstream answers this although no such value is stored. Its own tests expect it.
    return answer_value(
        from, retained_values_.emplace_back(*accounting_, origin_, request.expected), actions);
  }
  if (found != nullptr) {
    if (found->size() == request.expected.size() &&
        found->size() > bounds::store_compare_bytes_max) {
      actions.emplace_back(
          Disconnect{from, fmt::format("COMPARE_SET with a value of {} bytes, more than "
                                       "{}",
                                       found->size(), bounds::store_compare_bytes_max)});
      return;
    }
    if (!found->equals(request.expected)) return answer_value(from, *found, actions);
  }
  store(request.key, request.desired, actions);
  answer_value(from, *value_of(request.key), actions);
  wake_all(request.key, actions);
}

void Store::on(ConnectionId from, const c10d::Get& request, Actions& actions) {
  const StoredValue* found = value_of(request.key);
  if (found == nullptr) return answer(from, c10d::Value{}, actions);
  answer_value(from, *found, actions);
}

void Store::on(ConnectionId from, const c10d::Add& request, Actions& actions) {
  auto* const found = values_.find(request.key);
  const std::optional<std::int64_t> sum = counted(found, request.delta);
  if (!sum) return drop_non_number(from, "ADD", request.key, actions);
  answer(from, c10d::Number{*sum}, actions);
  store(found, request.key, Decimal(*sum).text(), actions);
  wake_all(request.key, actions);
}

void Store::on(ConnectionId from, const c10d::Check& request, Actions& actions) {
  answer(from, c10d::Checked{has_all(request.keys)}, actions);
}

void Store::on(ConnectionId from, const c10d::Wait& request, Actions& actions) {
  for (const c10d::Bytes key : request.keys) {
    if (!exists(key)) park(from, key, false);
  }
  if (!parked_.contains(from)) answer(from, c10d::Waited{}, actions);
}

void Store::on(ConnectionId from, const c10d::CancelWait& /*request*/, Actions& actions) {
  answer(from, c10d::Waited{.cancelled = true}, actions);
  wake_next_waiter(from, actions);
}

void Store::on(ConnectionId from, const c10d::GetNumKeys& /*request*/, Actions& actions) {
  answer(from, c10d::Number{static_cast<std::int64_t>(values_.size())}, actions);
}

void Store::on(ConnectionId from, const c10d::DeleteKey& request, Actions& actions) {
  auto* found = values_.find(request.key);
  if (found == nullptr || (namespaces_ && !namespaces_->may_delete(from, request.key))) {
    return answer(from, c10d::Number{0}, actions);
  }
  if (!watchers_.empty()) {
    retained_values_.push_back(std::move(found->second.value));
    notify(c10d::Change::deleted, request.key, retained_values_.back(), StoredValue(), actions);
  }
  values_.erase(found);
  report(c10d::Change::deleted, request.key, nullptr);
  answer(from, c10d::Number{1}, actions);
}

void Store::on(ConnectionId from, const c10d::Append& request, Actions& actions) {
  auto* found = values_.find(request.key);
  if (found == nullptr) {
    store(request.key, request.value, actions);
    return wake_all(request.key, actions);
  }
  StoredValue& value = found->second.value;
  if (value.size() + request.value.size() > bounds::store_value_bytes_max) {
    actions.emplace_back(Disconnect{
        from, fmt::format("APPEND would make a value of {} bytes, more than "
                          "{}",
                          value.size() + request.value.size(), bounds::store_value_bytes_max)});
    return;
  }
  const bool is_watched = watchers_.contains(request.key);
  if (is_watched) retained_values_.push_back(value.snapshot());
  value.append(*accounting_, origin_, request.value);
  found->second.charge.resize(bytes_of(found->second, request.key));
  if (is_watched) {
    notify(c10d::Change::updated, request.key, retained_values_.back(), value, actions);
  }
  report(c10d::Change::updated, request.key, &value);
  wake_all(request.key, actions);
}

void Store::on(ConnectionId from, const c10d::MultiGet& request, Actions& actions) {
  listed_.clear();
  std::size_t shown = 0;
  for (const c10d::Bytes key : request.keys) {
    const StoredValue* value = value_of(key);
    const auto view = value == nullptr ? std::string_view{} : value->view();
    if (!view || (shown += view->size()) >= bounds::store_shared_reply_bytes_min) {
      SharedReply shared_reply{from, {}};
      show_part(request.keys, shared_reply.reply);
      actions.emplace_back(std::move(shared_reply));
      return;
    }
    listed_.push_back(*view);
  }
  answer(from, c10d::Values{listed_}, actions);
}

void Store::on(ConnectionId /*from*/, const c10d::MultiSet& request, Actions& actions) {
  for (const c10d::KeyValue& entry : request.entries) {
    store(entry.key, entry.value, actions);
    wake_all(entry.key, actions);
  }
}

void Store::on(ConnectionId /*from*/, const c10d::QueuePush& request, Actions& actions) {
  // Created before there is a place for it, because memory for it may be lacking.
  Stored entry{StoredValue(*accounting_, origin_, request.value), {}};
  entry.charge = Reservation(*accounting_, origin_.account,
                             bounds::store_entry_bytes + entry.value.own_bytes());
  Queue& queue = queues_.try_emplace(request.key).second;
  if (queue.entries.empty()) {
    queue.charge = Reservation(*accounting_, origin_.account,
                               bounds::store_entry_bytes + request.key.size(), true);
  }
  queue.entries.push_back(std::move(entry));
  if (namespaces_) namespaces_->pushed(request.key, request.value.size());
  wake_one(request.key, actions);
}

void Store::on(ConnectionId from, const c10d::QueuePop& request, Actions& actions) {
  if (const auto owed = unclaimed_.find(from);
      owed != unclaimed_.end() && owed->second == request.key) {
    unclaimed_.erase(owed);
  }
  auto* found = queues_.find(request.key);
  if (found == nullptr) return answer(from, c10d::Popped{}, actions);
  std::deque<Stored>& entries = found->second.entries;
  const auto length = static_cast<std::int64_t>(entries.size());
  const StoredValue& popped = retained_values_.emplace_back(std::move(entries.front().value));
  entries.pop_front();
  if (entries.empty()) queues_.erase(found);
  if (namespaces_) namespaces_->popped(request.key, popped.size());
  if (const auto text = copied_in_reply(popped)) {
    return answer(from, c10d::Popped{length, *text}, actions);
  }
  SharedReply shared_reply{from, {}};
  c10d::encode(c10d::Number{length}, shared_reply.reply.copied);
  popped.show(shared_reply.reply);
  actions.emplace_back(std::move(shared_reply));
}

void Store::on(ConnectionId from, const c10d::QueueLen& request, Actions& actions) {
  const auto* found = queues_.find(request.key);
  const std::size_t length = found == nullptr ? 0 : found->second.entries.size();
  answer(from, c10d::Number{static_cast<std::int64_t>(length)}, actions);
}

void Store::on(ConnectionId from, const c10d::ListKeys& /*request*/, Actions& actions) {
  listed_.clear();
  for (std::size_t shard = 0; shard < values_.shard_count; ++shard) {
    values_.visit_shard(shard,
                        [&](const std::string& key, const Stored&) { listed_.push_back(key); });
  }
  answer(from, c10d::Keys{listed_}, actions);
}

bool Store::list_some(KeyListing& listing, std::size_t keys_max, std::string& out) const {
  const auto first = static_cast<std::size_t>(listing.key_count);
  for (; listing.shards_seen < values_.shard_count; ++listing.shards_seen) {
    if (static_cast<std::size_t>(listing.key_count) - first >= keys_max) return false;
    values_.visit_shard(listing.shards_seen, [&](const std::string& key, const Stored&) {
      c10d::encode(c10d::Value{key}, out);
      ++listing.key_count;
    });
  }
  return true;
}

// --- values ------------------------------------------------------------------------------------

bool Store::exists(std::string_view key) const {
  return values_.contains(key) || queues_.contains(key);
}

const StoredValue* Store::value_of(std::string_view key) const {
  const auto* found = values_.find(key);
  return found == nullptr ? nullptr : &found->second.value;
}

std::optional<std::int64_t> Store::counted(const KeyMap<Stored>::Entry* found, std::int64_t delta) {
  if (found == nullptr) return delta;
  const StoredValue& value = found->second.value;
  const auto view = value.view();
  const std::optional<std::int64_t> number =
      view ? parse_counter(view->substr(0, counter_bytes_max))
           : parse_counter(value.beginning(counter_bytes_max));
  if (!number) return std::nullopt;
  return wrapping_sum(*number, delta);
}

Store::Stored& Store::store_unwatched(KeyMap<Stored>::Entry* found, std::string_view key,
                                      std::string_view value) {
  const auto change = found == nullptr ? c10d::Change::created : c10d::Change::updated;
  if (found == nullptr) {
    // Created before there is a key for it, because memory for it may be lacking.
    StoredValue made(*accounting_, origin_, value);
    found = &values_.try_emplace(key);
    found->second.value = std::move(made);
    note_process_group(key);
  } else {
    found->second.value.assign(*accounting_, origin_, value);
  }
  charge_for(found->second, key);
  report(change, key, &found->second.value);
  return found->second;
}

void Store::store(KeyMap<Stored>::Entry* found, std::string_view key, std::string_view value,
                  Actions& actions) {
  if (found == nullptr || watchers_.empty()) {
    const Stored& stored = store_unwatched(found, key, value);
    if (!watchers_.empty())
      notify(c10d::Change::created, key, StoredValue(), stored.value, actions);
    return;
  }
  Stored& stored = found->second;
  retained_values_.push_back(
      std::exchange(stored.value, StoredValue(*accounting_, origin_, value)));
  notify(c10d::Change::updated, key, retained_values_.back(), stored.value, actions);
  charge_for(stored, key);
  report(c10d::Change::updated, key, &stored.value);
}

// The client that stored a value last pays for it.
void Store::charge_for(Stored& stored, std::string_view key) {
  const std::size_t bytes = bytes_of(stored, key);
  if (stored.charge.is_of(*accounting_, origin_.account)) return stored.charge.resize(bytes);
  stored.charge = Reservation(*accounting_, origin_.account, bytes, true);
}

std::size_t Store::bytes_of(const Stored& stored, std::string_view key) const {
  return bounds::store_entry_bytes + key.size() + stored.value.own_bytes() +
         (namespaces_ ? namespaces_->bytes_kept(key) : 0);
}

// A value was changed. Null: it was deleted.
void Store::report(c10d::Change change, std::string_view key, const StoredValue* value) {
  if (observer_) observer_(change, key, value);
  if (namespaces_ == nullptr) return;
  if (value == nullptr) {
    namespaces_->deleted(key);
  } else {
    namespaces_->set(client_, key, value->size());
  }
}

void Store::answer_value(ConnectionId to, const StoredValue& value, Actions& actions) {
  if (const auto text = copied_in_reply(value)) return answer(to, c10d::Value{*text}, actions);
  SharedReply shared_reply{to, {}};
  value.show(shared_reply.reply);
  actions.emplace_back(std::move(shared_reply));
}

void Store::drop_non_number(ConnectionId from, std::string_view operation, std::string_view key,
                            Actions& actions) {
  // A key may contain anything, and may be long enough to fill a screen.
  actions.emplace_back(Disconnect{from, std::string(operation) + " on key \"" +
                                            plain_line(key, bounds::name_shown_bytes_max) +
                                            "\", whose value is not a number"});
}

// Clients that a request of another client concerns: those that wait for a key, and those that
// watch one.

void Store::on(ConnectionId from, const c10d::Barrier& request, Actions& actions) {
  auto* const found = values_.find(request.key);
  const std::optional<std::int64_t> arrived = counted(found, 1);
  if (!arrived) return drop_non_number(from, "BARRIER", request.key, actions);
  store(found, request.key, Decimal(*arrived).text(), actions);
  if (*arrived >= request.world_size) {
    actions.emplace_back(Answer{from, c10d::Waited{}});
    return wake_all(request.key, actions);
  }
  // The counter exists now, which is what a plain WAIT waits for. The barrier itself is not full.
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
    watched.charges.emplace_back(*accounting_, origin_.account,
                                 bounds::store_entry_bytes + request.key.size());
  }
  actions.emplace_back(Answer{from, c10d::WatchRegistered{}});
}

// --- waits -------------------------------------------------------------------------------------

void Store::park(ConnectionId from, std::string_view key, bool in_barrier) {
  Line& line = waiters_.try_emplace(key);
  Waiters& waiters = in_barrier ? line.second.barriers : line.second.waits;
  // A key named twice is waited for only once. Both come from this request, so the first one is
  // still last in line.
  if (!waiters.empty() && waiters.back().connection == from) return;
  Parked& parked = parked_[from];
  // Every waiter must have a place, even if there is no memory for the place.
  if (parked.positions.size() == parked.positions.capacity()) {
    parked.positions.reserve(std::max<std::size_t>(1, parked.positions.size() * 2));
  }
  waiters.push_back({from, in_barrier, parked.positions.size()});
  parked.positions.push_back({&line, std::prev(waiters.end())});
  if (parked.positions.size() == 1) parked.charge = Reservation(*accounting_, origin_.account, 0);
  parked.charge.grow(bounds::store_entry_bytes + key.size());
}

// Leaves the last of its places, so that the others keep their indices.
void Store::leave_place(Parked& parked) {
  const Position place = parked.positions.back();
  parked.positions.pop_back();
  WaitLine& line = place.line->second;
  (place.at->in_barrier ? line.barriers : line.waits).erase(place.at);
  if (line.empty() && !line.is_waking) waiters_.erase(place.line);
}

bool Store::cancel_wait_of(ConnectionId connection) {
  const auto parked = parked_.find(connection);
  if (parked == parked_.end()) return false;
  while (!parked->second.positions.empty()) leave_place(parked->second);
  parked_.erase(parked);
  return true;
}

void Store::abandon_wait(ConnectionId from, Actions& actions) {
  let_go();
  if (cancel_wait_of(from)) wake_next_waiter(from, actions);
}

// Takes one waiter out of the line of a key that now exists, and answers it if it waited for
// nothing else. The line itself stays, even if it is empty now.
Store::Waiters::iterator Store::release(Line& line, Waiters::iterator waiter, Actions& actions) {
  const ConnectionId connection = waiter->connection;
  const auto parked = parked_.find(connection);
  std::vector<Position>& positions = parked->second.positions;
  const bool is_answered = positions.size() == 1 && !parked->second.is_over;
  // This may fail for lack of memory; then nothing has changed.
  if (is_answered) actions.emplace_back(Answer{connection, c10d::Waited{}});
  // The last place moves to the freed index, so that a wait for many keys is not searched each
  // time.
  positions[waiter->place] = positions.back();
  positions[waiter->place].at->place = waiter->place;
  positions.pop_back();
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
  // Waiters for a key that was created a moment ago are woken anyway.
  if (line == nullptr || line->second.is_waking) return;
  // Barriers count arrivals. An entry of a queue that happens to have their name is none.
  Waiters& waiters = line->second.waits;
  for (auto waiter = waiters.begin(); waiter != waiters.end();) {
    // A client that waits for other keys as well is not woken by this one: the entry is for the
    // next in line.
    const Parked& parked = parked_.at(waiter->connection);
    const bool is_woken = parked.positions.size() == 1 && !parked.is_over;
    if (is_woken) unclaimed_.insert_or_assign(waiter->connection, std::string(key));
    waiter = release(*line, waiter, actions);
    if (is_woken) break;
  }
  if (line->second.empty()) waiters_.erase(line);
}

// The entry for which that connection was woken is still there, and the connection will not take
// it: wakes the next in line. Otherwise that client would wait although there is an entry.
void Store::wake_next_waiter(ConnectionId connection, Actions& actions) {
  const auto owed = unclaimed_.find(connection);
  if (owed == unclaimed_.end()) return;
  const std::string key = std::move(owed->second);
  unclaimed_.erase(owed);
  if (queues_.contains(key)) wake_one(key, actions);
}

// Work that may concern more connections and keys than one turn should handle: clients woken by a
// new value, notices of a change, cleanup after a client. A little of it is done at once. The rest
// waits for go_on(), and the store gets no other request meanwhile.

namespace {

// The cost of notifying one connection of that, on top of sending it anything at all.
std::size_t steps_for_each(const IoSlices& text) {
  constexpr std::size_t bytes_of_step = 1024;
  return 1 + text.shared.size() + text.copied.size() / bytes_of_step;
}

}  // namespace

// Earlier notifications must be finished first, or a client that watches two keys would receive
// their notices in the wrong order.
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

// --- waking -------------------------------------------------------------------------------------

void Store::wake(Waking waking, Actions& actions) {
  if (waking.line == nullptr || waking.line->second.is_waking) return;
  WaitLine& line = waking.line->second;
  std::size_t all = line.waits.size() + (waking.with_barriers ? line.barriers.size() : 0);
  if (all == 0) return;
  const bool is_at_once = may_tell_at_once(all);
  // If memory runs out halfway, go_on() continues.
  fan_outs_.emplace_back(waking);
  line.is_waking = true;
  if (!is_at_once) return;
  (void)wake_some(waking, all, actions);  // that is, all of them
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

// --- notices of a change ------------------------------------------------------------------------

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
    (void)tell_some(notice, all, actions);  // that is, all of them
  } else {
    fan_outs_.emplace_back(std::move(notice));
  }
}

// References the values in place. A value too short for that is copied, once for all watchers.
IoSlices Store::notice_text(c10d::Change change, std::string_view key, const StoredValue& old_value,
                            const StoredValue& new_value) {
  IoSlices text;
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
    actions.emplace_back(SharedReply{(*notice.watchers)[notice.next], notice.text});
    steps -= std::min(steps, for_each);
  }
  return true;
}

// --- departures ---------------------------------------------------------------------------------

bool Store::abandon_large_wait(ConnectionId from) {
  if (parked_.empty()) return false;
  const auto parked = parked_.find(from);
  if (parked == parked_.end() ||
      parked->second.positions.size() <= bounds::store_told_at_once_max) {
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
  // Many clients may leave in one turn.
  std::size_t steps = bounds::store_told_at_once_max / 8;
  if (!departures_.empty() || !tidy_some(departure, steps)) departures_.push_back(departure);
  wake_next_waiter(connection, actions);
  if (namespaces_) namespaces_->left(connection);
}

bool Store::tidy_some(const Departure& departure, std::size_t& steps) {
  if (const auto parked = parked_.find(departure.connection); parked != parked_.end()) {
    for (; !parked->second.positions.empty(); --steps) {
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
  // Moving this many ids costs about as much as finding a key.
  constexpr std::size_t ids_of_step = 512;
  while (steps > 0 && !watched.keys.empty()) {
    auto* const line = watchers_.find(watched.keys.back());
    std::shared_ptr<Watchers>& watchers = line->second;
    // A notice that is still being sent keeps the old list.
    if (watchers.use_count() > 1) watchers = std::make_shared<Watchers>(*watchers);
    std::erase(*watchers, connection);
    steps -= std::min(steps, 1 + watchers->size() / ids_of_step);
    if (watchers->empty()) watchers_.erase(line);
    watched.keys.pop_back();
    watched.charges.pop_back();
  }
}

// --- clearing -----------------------------------------------------------------------------------

bool Store::Stored::free_some(std::size_t& work) {
  work -= std::min(work, value.size() / bounds::store_bytes_freed_of_work);
  return true;
}

bool Store::Queue::free_some(std::size_t& work) {
  for (; !entries.empty(); entries.pop_front()) {
    if (work < bounds::store_work_of_key) return false;
    work -= bounds::store_work_of_key;
    (void)entries.front().free_some(work);  // freed with the entry
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

class Store::DeferredWatches : public DeferredFree {
 public:
  explicit DeferredWatches(std::unordered_map<ConnectionId, Watched> watched)
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
  has_process_group_ = false;
  // These point at what is buried below.
  fan_outs_.clear();
  departures_.clear();
  parked_.clear();
  if (!watched_by_.empty()) {
    accounting_->free_later(std::make_unique<DeferredWatches>(std::exchange(watched_by_, {})));
  }
  unclaimed_.clear();
  listed_.clear();
  retained_.clear();
  retained_values_.clear();
  values_.free_later(*accounting_);
  queues_.free_later(*accounting_);
  if (namespaces_) namespaces_->clear();
  waiters_.free_later(*accounting_);
  watchers_.free_later(*accounting_);
}

// A request with very many keys, carried out in parts.

std::string Store::begin_parts(ConnectionId from, const c10d::Request& request,
                               const Origin& origin, Actions& actions) {
  abandon_wait(from, actions);
  origin_ = origin;
  std::string objection = objection_to(request);
  origin_ = {};
  return objection;
}

bool Store::has_all(std::span<const c10d::Bytes> keys) const {
  return std::ranges::all_of(keys, [this](c10d::Bytes key) { return exists(key); });
}

void Store::show_part(std::span<const c10d::Bytes> keys, IoSlices& reply) const {
  for (const c10d::Bytes key : keys) {
    if (reply.size() > bounds::store_reply_bytes_max) return;
    if (const StoredValue* value = value_of(key)) {
      value->show(reply);
    } else {
      c10d::encode(c10d::Value{}, reply.copied);
    }
  }
}

void Store::wait_for_part(ConnectionId from, std::span<const c10d::Bytes> keys,
                          const Origin& origin) {
  origin_ = origin;
  for (const c10d::Bytes key : keys) {
    if (!exists(key)) park(from, key, false);
  }
  origin_ = {};
}

// Whether there is room for what a request would add.

bool Store::would_change(const c10d::Request& request) const {
  const auto* const swap = std::get_if<c10d::CompareSet>(&request);
  if (swap == nullptr) return true;
  const StoredValue* const found = value_of(swap->key);
  if (found == nullptr) return swap->expected.empty();
  return found->size() <= bounds::store_compare_bytes_max && found->equals(swap->expected);
}

std::string Store::objection_to(const c10d::Request& request) const {
  if (takes_all_) return {};
  if (namespaces_ && would_change(request)) {
    if (std::string objection = namespaces_->objection(request); !objection.empty()) {
      return objection;
    }
  }
  // What arrived in memory that is kept is booked already.
  const auto size_of = [this](std::string_view value) {
    return origin_.memory && value.size() >= bounds::store_bulk_bytes_min ? 0 : value.size();
  };
  const auto of_key = [this](std::string_view key, std::size_t bytes) {
    // The usual case, without a lookup in the store.
    if (accounting_->has_room(origin_.account, bytes + key.size() + bounds::store_entry_bytes, 1)) {
      return std::string();
    }
    const StoredValue* old = value_of(key);
    if (old != nullptr && bytes <= old->size()) return std::string();
    return accounting_->objection(origin_.account, bytes + key.size() + bounds::store_entry_bytes,
                                  old == nullptr ? 1 : 0);
  };
  const auto of_keys = [this](std::span<const c10d::Bytes> keys) {
    std::size_t bytes = 0;
    for (const c10d::Bytes key : keys) bytes += key.size() + bounds::store_entry_bytes;
    return accounting_->objection(origin_.account, bytes);
  };
  return std::visit(
      Overloaded{
          [&](const c10d::Set& set) { return of_key(set.key, size_of(set.value)); },
          [&](const c10d::CompareSet& set) {
            return of_key(set.key, size_of(set.expected) + size_of(set.desired));
          },
          [&](const c10d::Add& add) { return of_key(add.key, bounds::store_number_digits_max); },
          [&](const c10d::Append& append) { return of_key(append.key, size_of(append.value)); },
          [&](const c10d::QueuePush& push) { return of_key(push.key, size_of(push.value)); },
          [&](const c10d::Barrier& barrier) {
            return of_key(barrier.key, bounds::store_number_digits_max);
          },
          [&](const c10d::Wait& wait) { return of_keys(wait.keys); },
          [&](const c10d::MultiSet& set) {
            std::size_t bytes = 0;
            for (const c10d::KeyValue& entry : set.entries) {
              bytes += entry.key.size() + size_of(entry.value) + bounds::store_entry_bytes;
            }
            return accounting_->objection(origin_.account, bytes, set.entries.size());
          },
          [&](const c10d::WatchKey& watch) {
            return accounting_->objection(origin_.account,
                                          watch.key.size() + bounds::store_entry_bytes);
          },
          // Requests that only read or remove add nothing.
          [](const auto&) { return std::string(); },
      },
      request);
}

// Shows the contents of a store to code that builds a copy, and builds that copy.

void Store::show_shard(std::size_t shard, Viewer& viewer) const {
  values_.visit_shard(shard, [&](const std::string& key, const Stored& stored) {
    viewer.value(key, stored.value);
  });
  queues_.visit_shard(shard, [&](const std::string& key, const Queue& queue) {
    for (const Stored& entry : queue.entries) viewer.queued(key, entry.value);
  });
  waiters_.visit_shard(shard, [&](const std::string& key, const WaitLine& line) {
    for (const Waiters* waiters : {&line.waits, &line.barriers}) {
      for (const Waiter& waiter : *waiters) viewer.waits(waiter.connection, key, waiter.in_barrier);
    }
  });
  watchers_.visit_shard(shard, [&](const std::string& key, const std::shared_ptr<Watchers>& all) {
    for (const ConnectionId watcher : *all) viewer.watches(watcher, key);
  });
  if (shard != 0) return;
  for (const auto& [connection, key] : unclaimed_) viewer.owed(connection, key);
}

void Store::put_value(std::string_view key, std::string_view value) {
  origin_ = {};
  StoredValue made(*accounting_, origin_, value);
  Stored& stored = values_.try_emplace(key).second;
  stored.value = std::move(made);
  charge_for(stored, key);
  note_process_group(key);
}

// The prefix that init_process_group uses for its default group. Clients put a slash before each
// key, and older versions of PyTorch another prefix as well.
void Store::note_process_group(std::string_view key) {
  constexpr std::string_view prefix = "default_pg/";
  constexpr std::string_view of_agent_store = "/worker/attempt_";
  if (has_process_group_) return;
  if (key.starts_with('/')) key.remove_prefix(1);
  has_process_group_ =
      key.starts_with(prefix) || (key.starts_with(of_agent_store) && key.find(prefix) != key.npos);
}

void Store::put_queued(std::string_view key, std::string_view value) {
  Actions ignored;
  origin_ = {};
  on(ConnectionId{}, c10d::QueuePush{.key = key, .value = value}, ignored);
}

void Store::put_waiting(ConnectionId connection, std::string_view key, bool in_barrier) {
  origin_ = {};
  park(connection, key, in_barrier);
}

void Store::put_watching(ConnectionId connection, std::string_view key) {
  Actions answered;
  origin_ = {};
  on(connection, c10d::WatchKey{.key = key}, answered);
}

void Store::put_owed(ConnectionId connection, std::string_view key) {
  unclaimed_.insert_or_assign(connection, std::string(key));
}

}  // namespace cpprun
