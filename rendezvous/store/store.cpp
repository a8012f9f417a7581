// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "proto/bounds.h"
#include "proto/c10d/encoder.h"
#include "proto/plain_text.h"
#include "rendezvous/store/counter_text.h"

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

bool is_shown_copied(const StoredValue& value) {
  return value.size() < bounds::store_parcel_bytes_min && value.view().has_value();
}

}  // namespace

Store::Store(std::shared_ptr<Ledger> ledger)
    : ledger_(std::move(ledger)),
      values_(ledger_->seed()),
      queues_(ledger_->seed()),
      waiters_(ledger_->seed()),
      watchers_(ledger_->seed()) {}

Store::~Store() {
  if (ledger_) clear();  // unless it has moved away
}

Store& Store::operator=(Store&& other) noexcept {
  swap(other);
  return *this;
}

void Store::swap(Store& other) noexcept {
  std::swap(ledger_, other.ledger_);
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
  std::swap(listed_, other.listed_);
  std::swap(retained_, other.retained_);
  std::swap(retained_values_, other.retained_values_);
}

void Store::keep_books_in(const std::shared_ptr<Ledger>& ledger) {
  if (ledger_ == ledger) return;
  if (values_.empty() && queues_.empty() && parked_.empty() && watched_by_.empty()) {
    *this = Store(ledger);
  }
}

void Store::apply(ConnectionId from, const c10d::Request& request, Actions& actions,
                  Origin origin) {
  let_go();
  told_at_once_ = 0;
  // Whoever asks for something else no longer waits. A client of dialect A or B that timed out says
  // nothing about it, and would take the late answer for the beginning of its next reply.
  if (!parked_.empty() && cancel_wait_of(from)) pass_on_unclaimed(from, actions);
  origin_ = std::move(origin);
  // What is asked most adds nothing, and need not be asked whether there is room for it.
  if (const auto* get = std::get_if<c10d::Get>(&request)) {
    on(from, *get, actions);
  } else if (std::string objection = objection_to(request); !objection.empty()) {
    actions.emplace_back(Drop{from, std::move(objection)});
  } else {
    std::visit([&](const auto& asked) { on(from, asked, actions); }, request);
  }
  origin_.memory.reset();
}

// What the last actions showed.
void Store::let_go() {
  if (!retained_.empty()) retained_.clear();
  if (!retained_values_.empty()) retained_values_.clear();
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
    // Upstream's answer, though nothing of the kind is stored; its own tests ask for it.
    return answer_value(from, retained_values_.emplace_back(*ledger_, origin_, request.expected),
                        actions);
  }
  if (found != nullptr) {
    if (found->size() == request.expected.size() &&
        found->size() > bounds::store_compare_bytes_max) {
      actions.emplace_back(Drop{from, fmt::format("COMPARE_SET with a value of {} bytes, more than "
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
  const std::optional<std::int64_t> sum = counted(request.key, request.delta);
  if (!sum) return drop_non_number(from, "ADD", request.key, actions);
  answer(from, c10d::Number{*sum}, actions);
  store(request.key, Decimal(*sum).text(), actions);
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
  pass_on_unclaimed(from, actions);
}

void Store::on(ConnectionId from, const c10d::GetNumKeys& /*request*/, Actions& actions) {
  answer(from, c10d::Number{static_cast<std::int64_t>(values_.size())}, actions);
}

void Store::on(ConnectionId from, const c10d::DeleteKey& request, Actions& actions) {
  auto* found = values_.find(request.key);
  if (found == nullptr) return answer(from, c10d::Number{0}, actions);
  if (!watchers_.empty()) {
    retained_values_.push_back(std::move(found->second.value));
    notify(c10d::Change::deleted, request.key, retained_values_.back(), StoredValue(), actions);
  }
  values_.erase(found);
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
    actions.emplace_back(Drop{
        from, fmt::format("APPEND would make a value of {} bytes, more than "
                          "{}",
                          value.size() + request.value.size(), bounds::store_value_bytes_max)});
    return;
  }
  const bool is_watched = watchers_.contains(request.key);
  if (is_watched) retained_values_.push_back(value.snapshot());
  value.append(*ledger_, origin_, request.value);
  found->second.charge.resize(bounds::store_entry_bytes + request.key.size() + value.own_bytes());
  if (is_watched) {
    notify(c10d::Change::updated, request.key, retained_values_.back(), value, actions);
  }
  wake_all(request.key, actions);
}

void Store::on(ConnectionId from, const c10d::MultiGet& request, Actions& actions) {
  listed_.clear();
  std::size_t shown = 0;
  for (const c10d::Bytes key : request.keys) {
    const StoredValue* value = value_of(key);
    const auto view = value == nullptr ? std::string_view{} : value->view();
    if (!view || (shown += view->size()) >= bounds::store_parcel_bytes_min) {
      Parcel parcel{from, {}};
      show_part(request.keys, parcel.reply);
      actions.emplace_back(std::move(parcel));
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
  // Made before there is a place for it: the memory for it may be lacking.
  Stored entry{StoredValue(*ledger_, origin_, request.value), {}};
  entry.charge =
      Charge(*ledger_, origin_.account, bounds::store_entry_bytes + entry.value.own_bytes());
  Queue& queue = queues_.try_emplace(request.key).second;
  if (queue.entries.empty()) {
    queue.charge =
        Charge(*ledger_, origin_.account, bounds::store_entry_bytes + request.key.size(), true);
  }
  queue.entries.push_back(std::move(entry));
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
  if (is_shown_copied(popped)) return answer(from, c10d::Popped{length, *popped.view()}, actions);
  Parcel parcel{from, {}};
  c10d::encode(c10d::Number{length}, parcel.reply.copied);
  popped.show(parcel.reply);
  actions.emplace_back(std::move(parcel));
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

std::optional<std::int64_t> Store::counted(std::string_view key, std::int64_t delta) const {
  const StoredValue* found = value_of(key);
  if (found == nullptr) return delta;
  const auto view = found->view();
  const std::optional<std::int64_t> number =
      view ? parse_counter(view->substr(0, counter_bytes_max))
           : parse_counter(found->beginning(counter_bytes_max));
  if (!number) return std::nullopt;
  return wrapping_sum(*number, delta);
}

void Store::store(std::string_view key, std::string_view value, Actions& actions) {
  auto* found = values_.find(key);
  if (found == nullptr) {
    // Made before there is a key for it: the memory for it may be lacking.
    StoredValue made(*ledger_, origin_, value);
    Stored& stored = values_.try_emplace(key).second;
    stored.value = std::move(made);
    charge_for(stored, key);
    if (!watchers_.empty())
      notify(c10d::Change::created, key, StoredValue(), stored.value, actions);
    return;
  }
  Stored& stored = found->second;
  if (watchers_.empty()) {
    stored.value.assign(*ledger_, origin_, value);
  } else {
    retained_values_.push_back(std::exchange(stored.value, StoredValue(*ledger_, origin_, value)));
    notify(c10d::Change::updated, key, retained_values_.back(), stored.value, actions);
  }
  charge_for(stored, key);
}

// Who stores a value last pays for it.
void Store::charge_for(Stored& stored, std::string_view key) {
  const std::size_t bytes = bounds::store_entry_bytes + key.size() + stored.value.own_bytes();
  if (stored.charge.is_of(*ledger_, origin_.account)) return stored.charge.resize(bytes);
  stored.charge = Charge(*ledger_, origin_.account, bytes, true);
}

void Store::answer_value(ConnectionId to, const StoredValue& value, Actions& actions) {
  if (is_shown_copied(value)) return answer(to, c10d::Value{*value.view()}, actions);
  Parcel parcel{to, {}};
  value.show(parcel.reply);
  actions.emplace_back(std::move(parcel));
}

void Store::drop_non_number(ConnectionId from, std::string_view operation, std::string_view key,
                            Actions& actions) {
  // A key may hold anything, and is long enough to fill a screen.
  actions.emplace_back(Drop{from, std::string(operation) + " on key \"" +
                                      plain_line(key, bounds::name_shown_bytes_max) +
                                      "\", whose value is not a number"});
}

}  // namespace cpprun
