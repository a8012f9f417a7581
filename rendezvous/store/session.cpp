// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

#include "proto/state_machine.h"
#include "rendezvous/client/bounds.h"
#include "rendezvous/store/bounds.h"

namespace cpprun {

namespace {

// From this inbox size on, bytes are received directly into the inbox.
constexpr std::size_t large_inbox = bounds::store_read_bytes;

// Bits of Session::conversation_number(), above the dialect.
constexpr std::uint64_t has_spoken_bit = 16;
constexpr std::uint64_t is_let_in_bit = 32;

// Takes over a buffer's memory. Frees it if there is no memory for the chunk that is to own it.
std::shared_ptr<Chunk> chunk_of(MemoryAccounting& accounting, AccountId account,
                                const ByteBuffer::Memory& memory) {
  std::unique_ptr<char, decltype(&std::free)> held(memory.data, &std::free);
  auto chunk =
      std::make_shared<Chunk>(accounting, account, memory.data, memory.end, memory.capacity);
  (void)held.release();  // owned by the chunk now
  return chunk;
}

std::size_t key_count_of(const c10d::Request& request) {
  return std::visit(Overloaded{
                        [](const c10d::Check& check) { return check.keys.size(); },
                        [](const c10d::Wait& wait) { return wait.keys.size(); },
                        [](const c10d::MultiGet& get) { return get.keys.size(); },
                        [](const c10d::MultiSet& set) { return set.entries.size(); },
                        [](const auto&) { return std::size_t{0}; },
                    },
                    request);
}

template <class Things>
Things part_of(Things things, std::size_t done) {
  return things.subspan(done, std::min(things.size() - done, bounds::store_keys_in_part));
}

}  // namespace

void Outbox::append(const IoSlices& pieces) {
  const std::size_t before = copied_taken_ + copied_.size();
  for (const IoSlices::Placed& placed : pieces.shared) {
    if (placed.slice.size == 0) continue;
    shared_.push_back({before + placed.at, placed.slice});
    shared_left_ += placed.slice.size;
  }
  copied_.append(pieces.copied);
}

std::span<const std::string_view> Outbox::next(std::span<std::string_view> room,
                                               std::size_t bytes_max) const {
  std::size_t used = 0;
  const auto put = [&](std::string_view bytes) {
    bytes = bytes.substr(0, bytes_max);
    if (bytes.empty()) return;
    bytes_max -= bytes.size();
    room[used++] = bytes;
  };
  std::string_view copied = copied_.view();
  std::size_t at = copied_taken_;
  for (std::size_t index = next_; index < shared_.size(); ++index) {
    if (used + 2 > room.size() || bytes_max == 0) return room.first(used);
    const Placed& placed = shared_[index];
    const std::size_t before = placed.copied_before - at;
    put(copied.substr(0, before));
    copied.remove_prefix(before);
    at += before;
    put(placed.slice.view());
  }
  if (used < room.size()) put(copied);
  return room.first(used);
}

std::string Outbox::text() const {
  std::vector<std::string_view> room(2 * (shared_.size() - next_) + 2);
  std::string text;
  for (const std::string_view piece : next(room, std::numeric_limits<std::size_t>::max())) {
    text.append(piece);
  }
  return text;
}

void Outbox::drop_front(std::size_t count) {
  while (count > 0) {
    const std::size_t copied_next =
        next_ == shared_.size() ? copied_.size() : shared_[next_].copied_before - copied_taken_;
    if (copied_next > 0) {
      const std::size_t dropped = std::min(count, copied_next);
      copied_.drop_front(dropped);
      copied_taken_ += dropped;
      count -= dropped;
      continue;
    }
    Slice& slice = shared_[next_].slice;
    const std::size_t dropped = std::min(count, slice.size);
    slice.start += dropped;
    slice.size -= dropped;
    shared_left_ -= dropped;
    count -= dropped;
    if (slice.size > 0) continue;
    slice.chunk.reset();
    ++next_;
  }
  if (next_ == shared_.size()) {
    shared_ = {};
    next_ = 0;
  }
}

bool Listing::go_on(const Store& store, std::size_t& work) {
  const std::int64_t listed = progress.key_count;
  std::string encoded;
  const bool is_whole = store.list_some(progress, bounds::store_keys_listed_at_once, encoded);
  bytes.append(encoded);
  work += encoded.size() +
          static_cast<std::size_t>(progress.key_count - listed) * bounds::store_work_of_key;
  return is_whole;
}

SharedReply Listing::reply(ConnectionId to, MemoryAccounting& accounting, AccountId account) {
  SharedReply shared_reply{to, {}};
  c10d::encode(c10d::Number{progress.key_count}, shared_reply.reply.copied);
  auto chunk = chunk_of(accounting, account, bytes.release());
  const std::size_t listed_bytes = chunk->used();
  shared_reply.reply.share({std::move(chunk), 0, listed_bytes});
  return shared_reply;
}

bool Session::is_received_in_place() const {
  return backlog != nullptr && backlog->inbox.size() >= large_inbox;
}

Backlog& Session::open_backlog() {
  if (backlog == nullptr) backlog = std::make_unique<Backlog>();
  return *backlog;
}

std::string Session::charge_backlog(MemoryAccounting& accounting) {
  const std::size_t held = backlog->inbox.size() + backlog->outbox.own_bytes() +
                           (backlog->listing ? backlog->listing->bytes.size() : 0);
  const std::size_t before = std::exchange(backlog->bytes_charged, held);
  if (held <= before) {
    accounting.credit(account, before - held);
    return {};
  }
  // What the program itself sends through no address is never rejected.
  std::string objection =
      account == AccountId{} ? "" : accounting.objection(account, held - before);
  accounting.charge(account, held - before);
  return objection;
}

void Session::drop_backlog(MemoryAccounting& accounting) {
  if (backlog == nullptr) return;
  accounting.credit(account, backlog->bytes_charged);
  if (backlog->inbox.capacity() > bounds::store_freed_at_once_max) {
    // As a chunk it is freed in pieces.
    const ByteBuffer::Memory memory = backlog->inbox.release();
    Chunk(accounting, account, memory.data, memory.end, memory.capacity);
  }
  backlog.reset();
}

void Session::drop_empty_backlog(MemoryAccounting& accounting) {
  if (backlog == nullptr || !backlog->inbox.empty() || !backlog->outbox.empty() ||
      backlog->listing != nullptr) {
    return;
  }
  drop_backlog(accounting);
}

std::uint64_t Session::conversation_number() const {
  return static_cast<std::uint64_t>(conversation.dialect) |
         (conversation.has_spoken ? has_spoken_bit : 0) |
         (speaks == Speaks::store ? is_let_in_bit : 0);
}

void Session::restore_conversation(std::uint64_t number) {
  conversation.dialect = static_cast<c10d::Dialect>(number & (has_spoken_bit - 1));
  conversation.has_spoken = (number & has_spoken_bit) != 0;
  if ((number & is_let_in_bit) != 0) speaks = Speaks::store;
}

std::optional<std::string> Session::check() const {
  const auto broken = [this](const char* what) {
    return fmt::format("connection {} {}", id.value, what);
  };
  const bool has_outbox = backlog != nullptr && !backlog->outbox.empty();
  if (awaits_writable && !has_outbox) return broken("waits to send, but has nothing to send");
  if (has_outbox && !awaits_writable && !is_queued_to_send) {
    return broken("has replies that will never be sent");
  }
  if (is_paused && !awaits_writable) return broken("is paused forever");
  if (is_paused && !is_timed) return broken("may stall forever");
  return std::nullopt;
}

TakenInbox::TakenInbox(Session& session, MemoryAccounting& accounting) {
  Backlog& backlog = *session.backlog;
  small_.swap(backlog.inbox);
  if (small_.size() < large_inbox || small_.size() < backlog.inbox_needed) return;
  accounting.credit(session.account, std::exchange(backlog.bytes_charged, 0));
  memory_ = small_.release();
  chunk_ = chunk_of(accounting, session.account, memory_);
}

void TakenInbox::put_back(Session& session, std::size_t consumed) {
  if (chunk_ == nullptr) {
    small_.drop_front(consumed);
  } else if (chunk_.use_count() == 1 && consumed < bytes().size()) {
    small_.adopt({chunk_->release(), memory_.start + consumed, memory_.end, memory_.capacity});
  } else {
    small_.append(bytes().substr(consumed));
  }
  chunk_.reset();
  session.open_backlog().inbox.swap(small_);
}

std::size_t work_of(const c10d::Complete& complete) {
  std::size_t keys = key_count_of(complete.request);
  // Compared byte by byte.
  if (const auto* const set = std::get_if<c10d::CompareSet>(&complete.request)) {
    keys = set->expected.size() / bounds::store_work_of_key;
  }
  // Larger requests are not copied.
  const std::size_t copied = complete.size < bounds::store_bulk_bytes_min ? complete.size : 0;
  return bounds::store_work_of_request + copied + keys * bounds::store_work_of_key;
}

bool LongRequest::is_one(const c10d::Request& request, const std::shared_ptr<Chunk>& memory) {
  return memory != nullptr && key_count_of(request) > bounds::store_keys_at_once_max;
}

void LongRequest::go_on(Store& store, Actions& actions) {
  std::visit(Overloaded{
                 [&](const c10d::Check& check) {
                   has_all_ = has_all_ && store.has_all(part_of(check.keys, done_));
                 },
                 [&](const c10d::Wait& wait) {
                   store.wait_for_part(from(), part_of(wait.keys, done_), origin_);
                 },
                 [&](const c10d::MultiGet& get) {
                   store.show_part(part_of(get.keys, done_), shared_reply_.reply);
                 },
                 [&](const c10d::MultiSet& set) {
                   const c10d::MultiSet part{part_of(set.entries, done_)};
                   store.apply(from(), part, actions, origin_);
                 },
                 [](const auto&) {},  // no other request has many keys
             },
             request_);
  done_ += bounds::store_keys_in_part;
}

bool LongRequest::is_done() const {
  return done_ >= key_count_of(request_);
}

void LongRequest::end(const Store& store, Actions& actions) {
  if (std::holds_alternative<c10d::Check>(request_)) {
    actions.emplace_back(Answer{from(), c10d::Checked{has_all_}});
  } else if (std::holds_alternative<c10d::MultiGet>(request_)) {
    actions.emplace_back(std::move(shared_reply_));
  } else if (std::holds_alternative<c10d::Wait>(request_) && !store.is_waiting(from())) {
    actions.emplace_back(Answer{from(), c10d::Waited{}});
  }
}

Session& SessionTable::open(int socket, const PeerAddress& peer, std::uint32_t port) {
  std::uint32_t slot = 0;
  if (free_.empty()) {
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Session& session = slots_[slot];
  session.id = ConnectionId{(++serial_ << slot_bits) | slot};
  session.socket = socket;
  session.peer = peer;
  session.port = port;
  return session;
}

const Session* SessionTable::find(ConnectionId id) const {
  const std::uint64_t slot = id.value & ((std::uint64_t{1} << slot_bits) - 1);
  if (id.value == 0 || slot >= slots_.size() || slots_[slot].id != id) return nullptr;
  return &slots_[slot];
}

Session* SessionTable::find(ConnectionId id) {
  return const_cast<Session*>(std::as_const(*this).find(id));
}

void SessionTable::release(Session& session) {
  const std::uint64_t slot = session.id.value & ((std::uint64_t{1} << slot_bits) - 1);
  session = Session{};
  free_.push_back(static_cast<std::uint32_t>(slot));
}

std::vector<int> SessionTable::sockets() const {
  std::vector<int> sockets;
  for (const Session& session : slots_) {
    if (session.id.value != 0) sockets.push_back(session.socket);
  }
  return sockets;
}

namespace {

// The queue is tidied when it is longer than this and than twice the number of connections.
constexpr std::size_t line_length_min = 64;

Session* still_silent(SessionTable& table, ConnectionId id) {
  Session* const session = table.find(id);
  return session != nullptr && session->speaks == Speaks::unknown_yet ? session : nullptr;
}

}  // namespace

void UnidentifiedConnections::add(ConnectionId id, SessionTable& table) {
  line_.push_back(id);
  if (line_.size() <= std::max(line_length_min, 2 * table.size())) return;
  std::erase_if(line_, [&](ConnectionId each) { return still_silent(table, each) == nullptr; });
}

Session* UnidentifiedConnections::longest_silent(SessionTable& table, ConnectionId newest) {
  while (!line_.empty()) {
    if (line_.front() == newest) return nullptr;
    if (Session* const silent = still_silent(table, line_.front())) return silent;
    line_.pop_front();
  }
  return nullptr;
}

Session* UnidentifiedConnections::longest_silent_of(SessionTable& table,
                                                    const PeerAddress& source) const {
  for (const ConnectionId each : line_) {
    Session* const silent = still_silent(table, each);
    if (silent != nullptr && silent->peer.source() == source) return silent;
  }
  return nullptr;
}

std::size_t DoomedConnections::add_all_of(std::uint32_t port, SessionTable& table,
                                          const std::string& reason, bool with_unidentified) {
  const auto shared_reason = std::make_shared<const std::string>(reason);
  std::size_t count = 0;
  for (Session& session : table.slots()) {
    if (session.id.value == 0 || session.port != port) continue;
    // A connection without a socket is never an agent, even before its first byte.
    const bool is_client = session.speaks == Speaks::store || session.socket < 0;
    if (!with_unidentified && !is_client) continue;
    ++count;
    if (std::exchange(session.is_doomed, true)) continue;
    queue_.push_back({session.id, shared_reason});
  }
  return count;
}

void DoomedConnections::recover(const SessionTable& table, const char* reason) {
  if (reserve_ != nullptr) return;
  reserve_.reset(new (std::nothrow) char[bounds::store_last_memory_bytes]);
  if (reserve_ == nullptr || !has_unlisted_) return;
  const auto shared_reason = std::make_shared<const std::string>(reason);
  for (const Session& session : table.slots()) {
    if (session.id.value == 0 || !session.is_doomed) continue;
    if (std::ranges::find(queue_, session.id, &Doomed::id) != queue_.end()) continue;
    queue_.push_back({session.id, shared_reason});
  }
  has_unlisted_ = false;
}

void TurnQueue::begin(TimePoint now) {
  now_ = now;
  work_left_ = static_cast<std::ptrdiff_t>(work_per_turn_);
  turns_left_ = to_decide_.size();
  wakes_left_ = wakes_per_slice_;
}

void TurnQueue::decide_later(Session& session) {
  if (!std::exchange(session.awaits_turn, true)) to_decide_.push_back(session.id);
}

bool TurnQueue::will_decide(ConnectionId id) const {
  return std::ranges::find(to_decide_, id) != to_decide_.end();
}

void TurnQueue::send_later(Session& session) {
  if (!std::exchange(session.is_queued_to_send, true)) to_send_.push_back(session.id);
}

std::optional<ConnectionId> TurnQueue::next_to_decide() {
  if (turns_left_ == 0 || to_decide_.empty() || !has_half()) return std::nullopt;
  --turns_left_;
  const ConnectionId id = to_decide_.front();
  to_decide_.pop_front();
  return id;
}

std::optional<ConnectionId> TurnQueue::next_to_send() {
  if (wakes_left_ == 0 || work_left_ <= 0 || to_send_.empty()) return std::nullopt;
  --wakes_left_;
  return any_to_send();
}

std::optional<ConnectionId> TurnQueue::any_to_send() {
  if (to_send_.empty()) return std::nullopt;
  const ConnectionId id = to_send_.front();
  to_send_.pop_front();
  return id;
}

std::optional<TurnQueue::Timer> TurnQueue::next_timer() {
  if (work_left_ <= 0 || timers_.empty() || timers_.top().when > now_) return std::nullopt;
  const Timer timer = timers_.top();
  timers_.pop();
  return timer;
}

bool TurnQueue::has_more() const {
  return !to_send_.empty() || !to_decide_.empty() ||
         (!timers_.empty() && timers_.top().when <= now_);
}

}  // namespace cpprun
