// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/client/async_requests.h"

#include <fmt/format.h>

#include <algorithm>

#include "rendezvous/client/request_limits.h"

namespace cpprun {

namespace {

using Code = StoreErrorCode;

std::string encoded(const c10d::Request& request) {
  std::string bytes;
  (void)c10d::encode(request, c10d::Dialect::d, bytes);  // dialect D has all requests
  return bytes;
}

}  // namespace

AsyncRequests::AsyncRequests(std::string key_prefix, const Limits& limits)
    : key_prefix_(std::move(key_prefix)), limits_(limits) {
  connections_.push_back(std::make_unique<Connection>());
  connections_[0]->state = Connection::State::opening;
  actions_.push_back(async_request::Open{0});
}

// --- requests ------------------------------------------------------------------------------------

// `request` is the largest that the operation sends.
StoreResult<AsyncRequestId> AsyncRequests::begin(Operation operation,
                                                 const c10d::Request& request) {
  if (broken_) return tl::unexpected(*broken_);
  if (auto objection = objection_to(request)) return tl::unexpected(std::move(*objection));
  if (operations_.size() >= limits_.requests_max) {
    return failure(Code::too_large,
                   fmt::format("{} requests are in progress, the maximum", operations_.size()));
  }
  drop_unsent();
  if (connections_[0]->outbox.size() > limits_.unsent_bytes_max) {
    return failure(Code::too_large,
                   fmt::format("{} bytes of requests are not sent yet, more than {}",
                               connections_[0]->outbox.size(), limits_.unsent_bytes_max));
  }
  const Id id = ++last_id_;
  deadlines_.insert({operation.deadline, id});
  operations_.emplace(id, std::move(operation));
  return id;
}

void AsyncRequests::ask(Id id, Owed::Part part, const c10d::Request& request) {
  const std::string bytes = encoded(request);
  ByteBuffer& outbox = connections_[0]->outbox;
  (void)outbox.tail(bytes.size());  // so that nothing fails halfway
  unsent_.push_back({.owed = {id, part, c10d::expected_of(request)},
                     .begin = queued_bytes_,
                     .end = queued_bytes_ + bytes.size()});
  outbox.append(bytes);
  queued_bytes_ += bytes.size();
}

void AsyncRequests::drop_unsent() {
  if (!std::exchange(has_dead_unsent_, false)) return;
  ByteBuffer& outbox = connections_[0]->outbox;
  ByteBuffer left;
  std::deque<Unsent> kept;
  std::uint64_t end = sent_bytes_;
  for (Unsent& each : unsent_) {
    if (!each.has_begun && !operations_.contains(each.owed.id)) continue;
    const std::uint64_t from = std::max(each.begin, sent_bytes_);
    left.append(outbox.view().substr(from - sent_bytes_, each.end - from));
    kept.push_back({.owed = each.owed,
                    .begin = each.has_begun ? each.begin : end,
                    .end = end + (each.end - from),
                    .has_begun = each.has_begun});
    end = kept.back().end;
  }
  outbox.swap(left);
  unsent_ = std::move(kept);
  queued_bytes_ = end;
}

// CHECK and GET leave in one write.
void AsyncRequests::look(Id id, const Operation& operation) {
  const c10d::Bytes names[] = {operation.keys[0]};
  ask(id, Owed::Part::exists, c10d::Check{names});
  ask(id, Owed::Part::value, c10d::Get{operation.keys[0]});
}

StoreResult<AsyncRequestId> AsyncRequests::set(TimePoint deadline, std::string_view key,
                                               std::string_view value) {
  const std::string name = full(key);
  const c10d::Set request{name, value};
  auto id = begin({.kind = Kind::set, .keys = {name}, .deadline = deadline}, request);
  if (id) ask(*id, Owed::Part::result, request);
  return id;
}

StoreResult<AsyncRequestId> AsyncRequests::get(TimePoint deadline, std::string_view key) {
  const std::string name = full(key);
  auto id = begin({.kind = Kind::get, .keys = {name}, .deadline = deadline}, c10d::Get{name});
  if (id) look(*id, operations_.at(*id));
  return id;
}

StoreResult<AsyncRequestId> AsyncRequests::find(TimePoint deadline, std::string_view key) {
  const std::string name = full(key);
  auto id = begin({.kind = Kind::find, .keys = {name}, .deadline = deadline}, c10d::Get{name});
  if (id) look(*id, operations_.at(*id));
  return id;
}

StoreResult<AsyncRequestId> AsyncRequests::add(TimePoint deadline, std::string_view key,
                                               std::int64_t delta) {
  const std::string name = full(key);
  const c10d::Add request{name, delta};
  auto id = begin({.kind = Kind::add, .keys = {name}, .deadline = deadline}, request);
  if (id) ask(*id, Owed::Part::result, request);
  return id;
}

StoreResult<AsyncRequestId> AsyncRequests::compare_set(TimePoint deadline, std::string_view key,
                                                       std::string_view expected,
                                                       std::string_view desired) {
  const std::string name = full(key);
  const c10d::CompareSet request{name, expected, desired};
  auto id = begin({.kind = Kind::compare_set, .keys = {name}, .deadline = deadline}, request);
  if (id) ask(*id, Owed::Part::result, request);
  return id;
}

StoreResult<AsyncRequestId> AsyncRequests::delete_key(TimePoint deadline, std::string_view key) {
  const std::string name = full(key);
  const c10d::DeleteKey request{name};
  auto id = begin({.kind = Kind::delete_key, .keys = {name}, .deadline = deadline}, request);
  if (id) ask(*id, Owed::Part::result, request);
  return id;
}

StoreResult<AsyncRequestId> AsyncRequests::wait(TimePoint deadline,
                                                const std::vector<std::string>& keys) {
  std::vector<std::string> names;
  for (const std::string& key : keys) names.push_back(full(key));
  const std::vector<c10d::Bytes> all = views(names);
  auto id = begin({.kind = Kind::wait, .keys = names, .deadline = deadline}, c10d::Wait{all});
  if (id) ask(*id, Owed::Part::all_exist, c10d::Check{all});
  return id;
}

StoreResult<AsyncRequestId> AsyncRequests::barrier(TimePoint deadline, std::string_view key,
                                                   std::int64_t world_size) {
  const std::string name = full(key);
  auto id =
      begin({.kind = Kind::barrier, .keys = {name}, .world_size = world_size, .deadline = deadline},
            c10d::Barrier{name, world_size});
  // The reply shows that the store has executed what was sent before.
  if (id) ask(*id, Owed::Part::fence, c10d::GetNumKeys{});
  return id;
}

bool AsyncRequests::cancel(Id id, const StoreError& error) {
  const auto at = operations_.find(id);
  if (at == operations_.end()) return false;
  finish(at, tl::unexpected(error));
  return true;
}

void AsyncRequests::end(const StoreError& error) {
  if (!broken_) broken_ = error;
  for (std::size_t each = 0; each < connections_.size(); ++each) {
    connections_[each]->waiting = 0;
    if (connections_[each]->state != Connection::State::closed) close(each);
  }
  without_connection_.clear();
  owed_.clear();
  unsent_.clear();
  // One by one: without memory, those that are left end at their deadlines.
  while (!operations_.empty()) {
    const auto& [id, operation] = *operations_.begin();
    actions_.push_back(async_request::Done{id, tl::unexpected(*broken_)});
    deadlines_.erase({operation.deadline, id});
    operations_.erase(operations_.begin());
  }
}

void AsyncRequests::finish(Operations::iterator at, StoreResult<AsyncValue> result) {
  const auto [id, operation] = std::move(*at);
  deadlines_.erase({operation.deadline, id});
  if (!result && !unsent_.empty()) has_dead_unsent_ = true;
  if (operation.is_pending) without_connection_.erase(id);
  operations_.erase(at);
  actions_.push_back(async_request::Done{id, std::move(result)});
  if (operation.connection != 0) leave(operation.connection);
}

// --- waits ---------------------------------------------------------------------------------------

void AsyncRequests::begin_wait(Id id) {
  using State = Connection::State;
  std::optional<std::size_t> closed;
  std::size_t in_use = 0;
  for (std::size_t each = 1; each < connections_.size(); ++each) {
    const Connection& connection = *connections_[each];
    if (connection.state == State::closed) {
      closed = each;
    } else if (connection.waiting == 0 && !connection.is_cancelling) {
      return take(each, id);
    } else {
      ++in_use;
    }
  }
  if (in_use >= limits_.waits_max) {
    without_connection_.insert(id);
    operations_.at(id).is_pending = true;
    return;
  }
  if (!closed) {
    closed = connections_.size();
    connections_.push_back(std::make_unique<Connection>());
  }
  connections_[*closed]->state = State::opening;
  actions_.push_back(async_request::Open{*closed});
  take(*closed, id);
}

// The connection is idle, or is being opened for this.
void AsyncRequests::take(std::size_t connection, Id id) {
  Operation& operation = operations_.at(id);
  operation.connection = connection;
  operation.is_pending = false;
  connections_[connection]->waiting = id;
  connections_[connection]->has_begun = false;
  const std::vector<c10d::Bytes> names = views(operation.keys);
  connections_[connection]->outbox.append(
      operation.kind == Kind::barrier
          ? encoded(c10d::Barrier{operation.keys[0], operation.world_size})
          : encoded(c10d::Wait{names}));
}

// The operation is over before the wait.
void AsyncRequests::leave(std::size_t connection) {
  Connection& its = *connections_[connection];
  its.waiting = 0;
  if (its.state == Connection::State::opening) {
    its.outbox.clear();
    return;  // it will be idle
  }
  if (!its.has_begun) {
    its.outbox.clear();
    return free(connection);
  }
  its.is_cancelling = true;
  its.outbox.append(encoded(c10d::CancelWait{}));
}

// The wait is over.
void AsyncRequests::free(std::size_t connection) {
  if (!without_connection_.empty()) {
    return take(connection, without_connection_.extract(without_connection_.begin()).value());
  }
  std::size_t idle = 0;
  for (std::size_t each = 1; each < connections_.size(); ++each) {
    const Connection& other = *connections_[each];
    if (other.state != Connection::State::closed && other.waiting == 0 && !other.is_cancelling) {
      ++idle;
    }
  }
  if (idle > limits_.idle_max) close(connection);
}

void AsyncRequests::close(std::size_t connection) {
  connections_[connection] = std::make_unique<Connection>();
  actions_.push_back(async_request::Close{connection});
}

// --- connections ---------------------------------------------------------------------------------

void AsyncRequests::opened(std::size_t connection) {
  connections_[connection]->state = Connection::State::open;
  if (connection != 0 && connections_[connection]->waiting == 0) free(connection);
}

void AsyncRequests::lost(std::size_t connection, const StoreError& error) {
  if (connection == 0) return end(error);
  const Id waiting = connections_[connection]->waiting;
  connections_[connection] = std::make_unique<Connection>();
  if (const auto at = operations_.find(waiting); at != operations_.end()) {
    at->second.connection = 0;
    finish(at, tl::unexpected(error));
  }
  // Others may now have its place.
  for (const auto others = std::exchange(without_connection_, {}); const Id other : others) {
    operations_.at(other).is_pending = false;
    begin_wait(other);
  }
}

std::string_view AsyncRequests::unsent(std::size_t connection) {
  if (connection == 0) drop_unsent();
  const Connection& its = *connections_[connection];
  return its.state == Connection::State::open ? its.outbox.view() : std::string_view();
}

void AsyncRequests::sent(std::size_t connection, std::size_t count) {
  connections_[connection]->outbox.drop_front(count);
  if (connection != 0) {
    if (count > 0) connections_[connection]->has_begun = true;
    return;
  }
  sent_bytes_ += count;
  while (!unsent_.empty() && unsent_.front().begin < sent_bytes_) {
    Unsent& first = unsent_.front();
    const bool has_reply = first.owed.expected.kind != c10d::ReplyKind::none;
    if (!std::exchange(first.has_begun, true) && has_reply) owed_.push_back(first.owed);
    if (first.end > sent_bytes_) return;
    const Id id = first.owed.id;
    unsent_.pop_front();
    if (has_reply) continue;
    if (const auto at = operations_.find(id); at != operations_.end()) finish(at, AsyncValue{});
  }
}

std::span<char> AsyncRequests::room(std::size_t connection) {
  return {connections_[connection]->inbox.tail(bounds::store_read_bytes), bounds::store_read_bytes};
}

void AsyncRequests::end_connection(std::size_t connection, const StoreError& error) {
  actions_.push_back(async_request::Close{connection});
  lost(connection, error);
}

void AsyncRequests::received(std::size_t connection, std::size_t count) {
  Connection& its = *connections_[connection];
  its.inbox.grow_by(count);
  while (its.inbox.size() >= its.needed) {
    const bool is_main = connection == 0;
    if (is_main ? owed_.empty() : its.waiting == 0 && !its.is_cancelling) {
      return end_connection(connection, {{"unexpected data from the store"}, Code::protocol});
    }
    const c10d::Expected expected =
        is_main ? owed_.front().expected : c10d::expected_of(c10d::CancelWait{});
    const c10d::DecodedReply decoded = its.decoder.decode(its.inbox.view(), expected);
    if (const auto* const more = std::get_if<c10d::NeedMoreReply>(&decoded)) {
      its.needed = more->size;
      return;
    }
    if (const auto* const malformed = std::get_if<c10d::MalformedReply>(&decoded)) {
      return end_connection(
          connection, {{"invalid reply from the store: " + malformed->reason}, Code::protocol});
    }
    const auto& complete = std::get<c10d::CompleteReply>(decoded);
    its.needed = 1;
    if (is_main) {
      const Owed owed = owed_.front();
      owed_.pop_front();
      answer(owed, complete.reply);
      its.inbox.drop_front(complete.size);
    } else {
      const bool cancelled = std::get<c10d::Waited>(complete.reply).cancelled;
      its.inbox.drop_front(complete.size);
      waited(connection, cancelled);
    }
    if (connections_[connection]->state != Connection::State::open) return;  // closed meanwhile
  }
}

void AsyncRequests::answer(const Owed& owed, const c10d::Reply& reply) {
  const auto at = operations_.find(owed.id);
  if (at == operations_.end()) return;  // timed out, or cancelled
  Operation& operation = at->second;
  const auto text = [&reply] { return std::string(std::get<c10d::Value>(reply).value); };
  switch (owed.part) {
    case Owed::Part::exists:
      operation.exists = std::get<c10d::Checked>(reply).ready;
      return;
    case Owed::Part::value:
      if (operation.exists) {
        // GET of a key that was deleted after the CHECK gets an empty value, too.
        auto found = text();
        if (found.empty() && ++operation.empty_looks < bounds::looks_at_empty_value) {
          return look(owed.id, operation);
        }
        return finish(at, AsyncValue{.text = std::move(found)});
      }
      operation.empty_looks = 0;
      if (operation.kind == Kind::find) return finish(at, AsyncValue{});
      return begin_wait(owed.id);
    case Owed::Part::all_exist:
      if (std::get<c10d::Checked>(reply).ready) return finish(at, AsyncValue{});
      return begin_wait(owed.id);
    case Owed::Part::fence:
      return begin_wait(owed.id);
    case Owed::Part::result:
      if (operation.kind == Kind::compare_set) return finish(at, AsyncValue{.text = text()});
      return finish(at, AsyncValue{.number = std::get<c10d::Number>(reply).number});
  }
}

void AsyncRequests::waited(std::size_t connection, bool cancelled) {
  Connection& its = *connections_[connection];
  if (its.is_cancelling) {
    // The reply to the wait itself may come before it.
    if (!cancelled) return;
    its.is_cancelling = false;
    return free(connection);
  }
  const auto at = operations_.find(std::exchange(its.waiting, 0));
  at->second.connection = 0;  // an operation that ends leaves its connection
  if (at->second.kind == Kind::get) {
    look(at->first, at->second);  // the key may be gone again
  } else {
    finish(at, AsyncValue{});
  }
  free(connection);
}

// --- time ----------------------------------------------------------------------------------------

void AsyncRequests::advance(TimePoint now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto at = operations_.find(deadlines_.begin()->second);
    finish(at, tl::unexpected(timed_out(at->second)));
  }
}

std::optional<TimePoint> AsyncRequests::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

// As the blocking client has it.
StoreError AsyncRequests::timed_out(const Operation& operation) const {
  const auto no_reply = [&](std::string_view request) {
    return fmt::format("no response from the store to {} {}", request, shown(operation.keys));
  };
  const auto text = [&]() -> std::string {
    switch (operation.kind) {
      case Kind::set:
        return "the store does not read";
      case Kind::find:
        return no_reply("GET of");
      case Kind::add:
        return no_reply("ADD to");
      case Kind::compare_set:
        return no_reply("COMPARE_SET of");
      case Kind::delete_key:
        return no_reply("DELETE_KEY of");
      case Kind::get:
      case Kind::wait:
        return fmt::format("wait for {} timed out", shown(operation.keys));
      case Kind::barrier:
        return fmt::format("barrier {} timed out", shown(operation.keys));
    }
    return {};
  };
  if (connections_[0]->state == Connection::State::open) return {{text()}, Code::timeout};
  return {
      {fmt::format("no connection to the store yet{}{}", problem_.empty() ? "" : ": ", problem_)},
      Code::timeout};
}

}  // namespace cpprun
