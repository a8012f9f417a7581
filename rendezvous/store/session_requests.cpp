// SPDX-License-Identifier: BSD-3-Clause
// How the bytes of a client become requests that are decided. Every whole request that is there is
// decided before anything is written, within what one visit may cost.

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <memory>
#include <utility>

#include "proto/c10d/encoder.h"
#include "proto/machine.h"
#include "proto/sniff.h"
#include "rendezvous/store/store_sessions.h"

namespace cpprun {
namespace {

// From an inbox of that size on, bytes are received straight into it.
constexpr std::size_t large_inbox = bounds::store_read_bytes;
// One sender of a large value does not hold the others up for longer than this takes to copy.
constexpr std::size_t large_read_max = 1024 * 1024;

bool is_received_in_place(const Session& session) {
  return session.backlog != nullptr && session.backlog->inbox.size() >= large_inbox;
}

// A buffer's memory, which is freed where there is none for the chunk that is to own it.
std::shared_ptr<Chunk> chunk_of(Ledger& ledger, AccountId account,
                                const ByteBuffer::Memory& memory) {
  std::unique_ptr<char, decltype(&std::free)> held(memory.data, &std::free);
  auto chunk = std::make_shared<Chunk>(ledger, account, memory.data, memory.end, memory.capacity);
  (void)held.release();  // the chunk's now
  return chunk;
}

// What it costs to carry a request out, beside what its replies do.
std::size_t work_of(const c10d::Complete& complete) {
  const std::size_t keys =
      std::visit(Overloaded{
                     [](const c10d::Check& check) { return check.keys.size(); },
                     [](const c10d::Wait& wait) { return wait.keys.size(); },
                     [](const c10d::MultiGet& get) { return get.keys.size(); },
                     [](const c10d::MultiSet& set) { return set.entries.size(); },
                     // Compared byte by byte.
                     [](const c10d::CompareSet& set) {
                       return set.expected.size() / bounds::store_work_of_key;
                     },
                     [](const auto&) { return std::size_t{0}; },
                 },
                 complete.request);
  // Larger ones are not copied.
  const std::size_t copied = complete.size < bounds::store_bulk_bytes_min ? complete.size : 0;
  return bounds::store_work_of_request + copied + keys * bounds::store_work_of_key;
}

}  // namespace

// --- what comes --------------------------------------------------------------------------------

std::span<char> StoreSessions::room(ConnectionId id) {
  Session* const session = heard(id);
  // What has come is decided first.
  if (session == nullptr || session->awaits_turn || session->is_paused) return {};
  if (logs_[session->port].is_held || is_replayed(*session)) return {};
  if (!is_received_in_place(*session)) return {read_.get(), bounds::store_read_bytes};
  // Little beyond the end of this request: its memory may become the value's, and what follows it
  // would have to be copied.
  Backlog& backlog = *session->backlog;
  const std::size_t here = backlog.inbox.size();
  const std::size_t missing = std::max(backlog.inbox_needed, here) - here;
  const std::size_t size = std::clamp(missing, bounds::store_read_bytes, large_read_max);
  if (const std::string objection = ledger_->objection(session->account, size);
      !objection.empty()) {
    close(*session, objection);
    return {};
  }
  return {backlog.inbox.tail(size, std::max(backlog.inbox_needed, here + size)), size};
}

void StoreSessions::received(ConnectionId id, std::size_t count) {
  Session* const session = heard(id);
  if (session == nullptr || count == 0) return;
  spend(count);
  const std::string_view bytes(read_.get(), std::min(count, bounds::store_read_bytes));
  Backlog* const backlog = session->backlog.get();
  StoreJournal* const journal = journal_of(*session);
  const bool is_in_place = is_received_in_place(*session);
  if (journal != nullptr && !is_in_place) journal->read(id, bytes);
  if (session->speaks == Speaks::unknown_yet) return greet(*session, bytes);
  if (backlog != nullptr && !backlog->inbox.empty()) {
    if (is_in_place) {
      backlog->inbox.grow_by(count);
      const std::string_view inbox = backlog->inbox.view();
      if (journal != nullptr) journal->read(id, inbox.substr(inbox.size() - count));
    } else {
      backlog->inbox.append(bytes);
    }
    if (!settle(*session)) return;
    if (backlog->inbox.size() >= backlog->inbox_needed) digest_inbox(*session, false);
    return;
  }
  // The usual case: whole requests, which need no memory of their own.
  c10d::Progress progress;
  const Digested done = digest(*session, bytes, progress, false);
  if (done.is_gone || done.consumed == bytes.size()) return;
  keep(*session, bytes.substr(done.consumed), done, progress);
}

void StoreSessions::keep(Session& session, std::string_view rest, const Digested& done,
                         const c10d::Progress& progress) {
  Backlog& backlog = backlog_of(session);
  backlog.inbox.append(rest);
  backlog.inbox_needed = done.needed;
  backlog.progress = progress;
  (void)settle(session);  // nothing is done with it here, closed or not
}

// The first bytes say what it speaks. They are kept until it is let in.
void StoreSessions::greet(Session& session, std::string_view received) {
  const bool is_first = session.backlog == nullptr;
  ByteBuffer& inbox = backlog_of(session).inbox;
  inbox.append(received);
  const std::string_view bytes = inbox.view();
  switch (sniff(bytes)) {
    case Protocol::undecided:
      // Whoever says nothing at all may stay: old clients open a second connection and keep it.
      if (is_first) arm(TimerKind::greeting, session.id, bounds::join_patience);
      (void)settle(session);
      return;
    case Protocol::link:
      return hand_over(session, Protocol::link);
    case Protocol::http:
      if (taken_[session.port].http) return hand_over(session, Protocol::http);
      return refuse_protocol(session, bytes);
    case Protocol::secure:
      if (taken_[session.port].secure) return hand_over(session, Protocol::secure);
      return refuse_protocol(session, bytes);
    case Protocol::unknown:
      return refuse_protocol(session, bytes);
    case Protocol::store:
      if (!settle(session)) return;
      actions_.emplace_back(session::Admit{
          .id = session.id, .socket = session.socket, .port = session.port, .peer = session.peer});
      return;
  }
}

void StoreSessions::refuse_protocol(Session& session, std::string_view bytes) {
  close(session, fmt::format("{} on a port for store clients and agents", describe(bytes)));
}

void StoreSessions::hand_over(Session& session, Protocol speaks) {
  if (StoreJournal* const journal = journal_of(session)) journal->closed(session.id);
  actions_.emplace_back(
      session::HandOver{.socket = session.socket,
                        .port = session.port,
                        .peer = session.peer,
                        .speaks = speaks,
                        .first_bytes = std::string(backlog_of(session).inbox.view())});
  detach(session);
}

void StoreSessions::admit(ConnectionId id) {
  Session* const session = heard(id);
  Store* const store = session == nullptr ? nullptr : store_of(*session);
  if (store == nullptr) return;
  session->speaks = Speaks::store;
  store->keep_books_in(ledger_);
  digest_inbox(*session, false);
}

// --- what is decided of it ---------------------------------------------------------------------

// Into small_inbox_, or into memory_ what is large and may become a value of the store as it lies.
ByteBuffer::Memory StoreSessions::take_inbox(Session& session) {
  Backlog& backlog = *session.backlog;
  ByteBuffer inbox;
  inbox.swap(backlog.inbox);
  if (inbox.size() < large_inbox || inbox.size() < backlog.inbox_needed) {
    small_inbox_.swap(inbox);
    return {};
  }
  ledger_->credit(session.account, std::exchange(backlog.bytes_charged, 0));
  const ByteBuffer::Memory memory = inbox.release();
  memory_ = chunk_of(*ledger_, session.account, memory);
  return memory;
}

void StoreSessions::digest_inbox(Session& session, bool grace_over) {
  if (session.backlog == nullptr || session.backlog->inbox.empty()) return;
  c10d::Progress progress = session.backlog->progress;
  // The requests point into these bytes, and may end the connection with all that is its own.
  const ByteBuffer::Memory place = take_inbox(session);
  const std::string_view bytes =
      memory_ ? memory_->view().substr(place.start) : small_inbox_.view();
  const std::size_t size = bytes.size();
  const Digested done = digest(session, bytes, progress, grace_over);
  if (done.is_gone) {
    memory_.reset();
    return small_inbox_.clear();
  }
  put_back(session, place, size, done.consumed);
  const ConnectionId id = session.id;
  keep(session, {}, done, progress);
  if (session.id == id) drop_empty_backlog(session);
}

// The rest of what take_inbox() has taken.
void StoreSessions::put_back(Session& session, const ByteBuffer::Memory& place, std::size_t size,
                             std::size_t consumed) {
  const std::shared_ptr<Chunk> memory = std::exchange(memory_, nullptr);
  ByteBuffer rest;
  rest.swap(small_inbox_);
  if (memory == nullptr) {
    rest.drop_front(consumed);
  } else if (memory.use_count() == 1 && consumed < size) {
    rest.adopt({memory->release(), place.start + consumed, place.end, place.capacity});
  } else {
    rest.append(memory->view().substr(place.start + consumed));
  }
  backlog_of(session).inbox.swap(rest);
}

StoreSessions::Digested StoreSessions::digest(Session& session, std::string_view bytes,
                                              c10d::Progress& progress, bool grace_over) {
  // What was to be written before was written, or these replies would go to somebody else.
  assert(replies_.empty() && gathered_for_ == ConnectionId{});
  const ConnectionId id = session.id;
  served_ = id;
  session.is_ambiguous = false;
  Digested done = decide(session, bytes, progress, grace_over);
  served_ = {};
  const std::string last_reason = std::exchange(last_reason_, {});
  if (session.id != id) {
    replies_.clear();
    return {.is_gone = true};
  }
  // What was asked before the bad request is still answered.
  flush(session, last_reason);
  if (session.id != id || !last_reason.empty()) done.is_gone = true;
  return done;
}

StoreSessions::Digested StoreSessions::decide(Session& session, std::string_view bytes,
                                              c10d::Progress& progress, bool grace_over) {
  const ConnectionId id = session.id;
  const std::ptrdiff_t end_of_visit =
      work_left_ - static_cast<std::ptrdiff_t>(limits_.work_per_visit);
  Digested done;
  Store* const store = store_of(session);
  if (store == nullptr || is_replayed(session)) return done;
  if (logs_[session.port].is_held) {
    queue_turn(session);
    return done;
  }
  if (store->abandon_large_wait(id)) {
    if (StoreJournal* const journal = journal_of(session)) journal->abandoned(id);
    queue_unfinished(session);
  }
  while (done.consumed < bytes.size() && !session.is_paused) {
    const std::size_t waiting = session.backlog == nullptr ? 0 : session.backlog->outbox.size();
    const bool has_enough = replies_.size() >= bounds::store_gather_bytes ||
                            waiting > limits_.outbox_bytes_max || work_left_ < end_of_visit;
    if (has_enough || session.awaits_turn || is_busy()) {
      queue_turn(session);
      break;
    }
    const std::string_view rest = bytes.substr(done.consumed);
    const c10d::Decoded decoded = decoder_.decode(rest, session.conversation, progress, grace_over);
    if (const auto* complete = std::get_if<c10d::Complete>(&decoded)) {
      carry_out(session, *store, *complete);
      if (session.id != id || !last_reason_.empty()) return {.is_gone = true};
      done.consumed += complete->size;
      grace_over = false;
      if (is_busy()) break;
    } else if (const auto* more = std::get_if<c10d::NeedMore>(&decoded)) {
      done.needed = more->size;
      break;
    } else if (const auto* malformed = std::get_if<c10d::Malformed>(&decoded)) {
      last_reason_ = malformed->reason;
      return {.is_gone = true};
    } else {
      session.is_ambiguous = true;
      arm(TimerKind::ambiguity, id, bounds::store_dialect_grace);
      done.needed = rest.size() + 1;
      break;
    }
  }
  return done;
}

void StoreSessions::carry_out(Session& session, Store& store, const c10d::Complete& complete) {
  if (std::holds_alternative<c10d::ListKeys>(complete.request) &&
      store.key_count() > bounds::store_keys_listed_at_once) {
    if (StoreJournal* const journal = journal_of(session)) journal->abandoned(session.id);
    begin_deciding();
    store.abandon_wait(session.id, decided_);
    perform(decided_);
    Backlog& backlog = backlog_of(session);
    backlog.listing = std::make_unique<Listing>();
    backlog.listing->asked = complete.size;
    return queue_turn(session);
  }
  if (is_long(complete)) return begin_long(session, complete);
  const ConnectionId from = session.id;
  const std::size_t replies_before = replies_.size();
  begin_deciding();
  store.apply(from, complete.request, decided_, {session.account, memory_});
  tell_journal(session, complete);
  perform(decided_);
  if (store.has_unfinished() && session.id == from) queue_unfinished(session);
  const std::size_t replied = std::max(replies_.size(), replies_before) - replies_before;
  spend(work_of(complete) + decided_.size() * bounds::store_work_of_request + replied);
}

// What ends its client has changed nothing; that it is closed is told then.
void StoreSessions::tell_journal(const Session& session, const c10d::Complete& complete) {
  StoreJournal* const journal = journal_of(session);
  if (journal == nullptr) return;
  std::string listed;
  for (const Action& action : decided_) {
    if (std::holds_alternative<Drop>(action)) return;
    const auto* const answer = std::get_if<Answer>(&action);
    if (answer == nullptr || !std::holds_alternative<c10d::Keys>(answer->reply)) continue;
    c10d::encode(answer->reply, listed);
    return journal->listed(session.id, complete.size, listed);
  }
  journal->decided(session.id, complete.size);
}

// The one that is being served is told first what it was answered before.
void StoreSessions::end(ConnectionId id, const std::string& reason) {
  if (id == served_) {
    last_reason_ = reason;
  } else {
    close(id, reason);
  }
}

// --- what waits for its turn -------------------------------------------------------------------

// The rest of what it asks waits until its store has done what it has begun.
void StoreSessions::queue_unfinished(Session& session) {
  notice_unfinished(session.port);
  queue_turn(session);
}

void StoreSessions::queue_turn(Session& session) {
  if (std::exchange(session.awaits_turn, true)) return;
  to_decide_.push_back(session.id);
}

// False: there are more keys to be listed, or the connection is gone.
bool StoreSessions::go_on_listing(Session& session) {
  if (session.backlog == nullptr || session.backlog->listing == nullptr) return true;
  Store* const store = store_of(session);
  if (store == nullptr) return false;
  Listing& listing = *session.backlog->listing;
  encoded_.clear();
  const std::int64_t listed = listing.progress.key_count;
  const bool is_whole =
      store->list_some(listing.progress, bounds::store_keys_listed_at_once, encoded_);
  listing.bytes.append(encoded_);
  spend(encoded_.size() +
        static_cast<std::size_t>(listing.progress.key_count - listed) * bounds::store_work_of_key);
  if (!settle(session)) return false;
  if (!is_whole) {
    queue_turn(session);
    return false;
  }
  Parcel parcel{session.id, {}};
  c10d::encode(c10d::Number{listing.progress.key_count}, parcel.reply.copied);
  auto chunk = chunk_of(*ledger_, session.account, listing.bytes.release());
  const std::size_t listed_bytes = chunk->used();
  parcel.reply.share({std::move(chunk), 0, listed_bytes});
  const std::size_t asked = listing.asked;
  session.backlog->listing.reset();
  if (StoreJournal* const journal = journal_of(session)) {
    journal->listed(session.id, asked, parcel.reply.text());
  }
  const ConnectionId id = session.id;
  deliver(parcel);
  return session.id == id && settle(session);
}

}  // namespace cpprun
