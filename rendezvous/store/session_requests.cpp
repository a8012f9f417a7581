// SPDX-License-Identifier: BSD-3-Clause
// How the bytes of a client become requests that are decided. All complete requests are decided
// before anything is written, within what one visit may cost.

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <memory>
#include <utility>

#include "proto/c10d/codec.h"
#include "proto/sniff.h"
#include "proto/state_machine.h"
#include "rendezvous/store/store_sessions.h"

namespace cpprun {

namespace {

// From this inbox size on, bytes are received directly into the inbox.
constexpr std::size_t large_inbox = bounds::store_read_bytes;
// A sender of a large value holds up other clients for no longer than it takes to copy this much.
constexpr std::size_t large_read_max = 1024 * 1024;

bool is_received_in_place(const Session& session) {
  return session.backlog != nullptr && session.backlog->inbox.size() >= large_inbox;
}

// Takes over a buffer's memory. Frees it if there is no memory for the chunk that is to own it.
std::shared_ptr<Chunk> chunk_of(MemoryAccounting& accounting, AccountId account,
                                const ByteBuffer::Memory& memory) {
  std::unique_ptr<char, decltype(&std::free)> held(memory.data, &std::free);
  auto chunk =
      std::make_shared<Chunk>(accounting, account, memory.data, memory.end, memory.capacity);
  (void)held.release();  // owned by the chunk now
  return chunk;
}

// The cost of carrying a request out, apart from its replies.
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
  // Larger requests are not copied.
  const std::size_t copied = complete.size < bounds::store_bulk_bytes_min ? complete.size : 0;
  return bounds::store_work_of_request + copied + keys * bounds::store_work_of_key;
}

}  // namespace

// --- input --------------------------------------------------------------------------------------

std::span<char> StoreSessions::room(ConnectionId id) {
  Session* const session = heard(id);
  // What has arrived is decided first.
  if (session == nullptr || session->awaits_turn || session->is_paused) return {};
  if (logs_[session->port].is_held || is_replayed(*session)) return {};
  if (!is_received_in_place(*session)) return {read_.get(), bounds::store_read_bytes};
  // Little beyond the end of this request: its memory may become the value's, and the bytes after
  // the request would have to be copied.
  Backlog& backlog = *session->backlog;
  const std::size_t here = backlog.inbox.size();
  const std::size_t missing = std::max(backlog.inbox_needed, here) - here;
  const std::size_t size = std::clamp(missing, bounds::store_read_bytes, large_read_max);
  if (const std::string objection = accounting_->objection(session->account, size);
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
  // The usual case: complete requests, which need no memory of their own.
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
  (void)settle(session);  // the session is not used after this, closed or not
}

// The first bytes show the protocol. They are kept until the connection is admitted.
void StoreSessions::greet(Session& session, std::string_view received) {
  const bool is_first = session.backlog == nullptr;
  ByteBuffer& inbox = backlog_of(session).inbox;
  inbox.append(received);
  const std::string_view bytes = inbox.view();
  switch (sniff(bytes)) {
    case Protocol::undecided:
      // A connection that sends nothing at all may stay: old clients open a second one and keep it.
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
  store->keep_books_in(accounting_);
  digest_inbox(*session, false);
}

// --- decisions ----------------------------------------------------------------------------------

// Moves the inbox to small_inbox_, or to memory_ if it is large and may become a value in place.
ByteBuffer::Memory StoreSessions::take_inbox(Session& session) {
  Backlog& backlog = *session.backlog;
  ByteBuffer inbox;
  inbox.swap(backlog.inbox);
  if (inbox.size() < large_inbox || inbox.size() < backlog.inbox_needed) {
    small_inbox_.swap(inbox);
    return {};
  }
  accounting_->credit(session.account, std::exchange(backlog.bytes_charged, 0));
  const ByteBuffer::Memory memory = inbox.release();
  memory_ = chunk_of(*accounting_, session.account, memory);
  return memory;
}

void StoreSessions::digest_inbox(Session& session, bool grace_over) {
  if (session.backlog == nullptr || session.backlog->inbox.empty()) return;
  c10d::Progress progress = session.backlog->progress;
  // The requests point into these bytes, and may end the connection with everything it owns.
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

// Puts back what is left of the bytes that take_inbox() took.
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
  // Earlier output must have been written, or these replies would go to another client.
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
  // Requests before the malformed one are still answered.
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

// A request that ends its client has changed nothing. The journal then records only the end.
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

// The client being served first gets the replies to its earlier requests.
void StoreSessions::end(ConnectionId id, const std::string& reason) {
  if (id == served_) {
    last_reason_ = reason;
  } else {
    close(id, reason);
  }
}

// --- waiting for a turn -------------------------------------------------------------------------

// The client's further requests wait until its store has finished what it began.
void StoreSessions::queue_unfinished(Session& session) {
  notice_unfinished(session.port);
  queue_turn(session);
}

void StoreSessions::queue_turn(Session& session) {
  if (std::exchange(session.awaits_turn, true)) return;
  to_decide_.push_back(session.id);
}

// Returns false if there are more keys to list, or the connection is gone.
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
  SharedReply shared_reply{session.id, {}};
  c10d::encode(c10d::Number{listing.progress.key_count}, shared_reply.reply.copied);
  auto chunk = chunk_of(*accounting_, session.account, listing.bytes.release());
  const std::size_t listed_bytes = chunk->used();
  shared_reply.reply.share({std::move(chunk), 0, listed_bytes});
  const std::size_t asked = listing.asked;
  session.backlog->listing.reset();
  if (StoreJournal* const journal = journal_of(session)) {
    journal->listed(session.id, asked, shared_reply.reply.text());
  }
  const ConnectionId id = session.id;
  deliver(shared_reply);
  return session.id == id && settle(session);
}

// A request with very many keys takes longer than one turn may. It is carried out in parts. Links
// are served in between, but no client of any store is, so that none sees an intermediate state.

namespace {

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

// So many keys exceed what is received at once. Their bytes are therefore in memory that can be
// kept until the request is done.
bool StoreSessions::is_long(const c10d::Complete& complete) const {
  return memory_ != nullptr && key_count_of(complete.request) > bounds::store_keys_at_once_max;
}

void StoreSessions::begin_long(Session& session, const c10d::Complete& complete) {
  const Origin origin{session.account, memory_};
  begin_deciding();
  const std::string objection =
      store_of(session)->begin_parts(session.id, complete.request, origin, decided_);
  perform(decided_);
  if (!objection.empty()) return end(session.id, objection);
  if (StoreJournal* const journal = journal_of(session)) {
    journal->decided(session.id, complete.size);
  }
  long_ = LongRequest{
      .from = session.id, .request = complete.request, .origin = origin, .reply = {session.id, {}}};
}

// Carries out one part. After the last one, the connection gets an ordinary turn.
bool StoreSessions::go_on_with_long() {
  if (!long_) return false;
  LongRequest& request = *long_;
  Session* const session = heard(request.from);
  Store* const store = session == nullptr ? nullptr : store_of(*session);
  if (store == nullptr) {
    long_.reset();  // its store was emptied or closed, too
    return true;
  }
  const std::uint32_t port = session->port;
  begin_deciding();
  std::visit(Overloaded{
                 [&](const c10d::Check& check) {
                   const auto part = part_of(check.keys, request.done);
                   request.has_all = request.has_all && store->has_all(part);
                 },
                 [&](const c10d::Wait& wait) {
                   store->wait_for_part(request.from, part_of(wait.keys, request.done),
                                        request.origin);
                 },
                 [&](const c10d::MultiGet& get) {
                   store->show_part(part_of(get.keys, request.done), request.reply.reply);
                 },
                 [&](const c10d::MultiSet& set) {
                   const c10d::MultiSet part{part_of(set.entries, request.done)};
                   store->apply(request.from, part, decided_, request.origin);
                 },
                 [](const auto&) {},  // no other request has many keys
             },
             request.request);
  perform(decided_);
  if (!long_) return true;
  notice_unfinished(port);
  request.done += bounds::store_keys_in_part;
  if (request.done >= key_count_of(request.request)) end_long();
  return true;
}

void StoreSessions::end_long() {
  const LongRequest request = std::move(*long_);
  long_.reset();
  Session* const session = heard(request.from);
  const Store* const store = session == nullptr ? nullptr : store_of(*session);
  if (store == nullptr) return;
  queue_turn(*session);
  if (std::holds_alternative<c10d::Check>(request.request)) {
    deliver(Answer{request.from, c10d::Checked{request.has_all}});
  } else if (std::holds_alternative<c10d::MultiGet>(request.request)) {
    deliver(request.reply);
  } else if (std::holds_alternative<c10d::Wait>(request.request) &&
             !store->is_waiting(request.from)) {
    deliver(Answer{request.from, c10d::Waited{}});
  }
}

// How decisions of the store become bytes, and what happens if a client does not read them. The
// replies to one client's requests leave in one write. A large value is sent from where it is
// stored, a slice in each turn.

namespace {

// How much of the memory that gathered replies is kept for the next ones.
constexpr std::size_t replies_kept_max = 1024 * 1024;
// Taken from one outbox at once. The kernel copies that much in a fraction of a millisecond.
constexpr std::size_t sent_bytes_max = 1024 * 1024;

}  // namespace

// --- actions -------------------------------------------------------------------------------------

void StoreSessions::perform(const Actions& actions) {
  for (const Action& action : actions) {
    if (const auto* answer = std::get_if<Answer>(&action)) {
      deliver(*answer);
    } else if (const auto* shared_reply = std::get_if<SharedReply>(&action)) {
      deliver(*shared_reply);
    } else if (const auto* drop = std::get_if<Drop>(&action)) {
      end(drop->connection, drop->reason);
    }
    if (&actions == &decided_) ++performed_;
  }
}

void StoreSessions::begin_deciding() {
  decided_.clear();
  performed_ = 0;
}

void StoreSessions::refuse_huge_reply(ConnectionId to) {
  end(to, fmt::format("asked for a reply of more than {} bytes", bounds::store_reply_bytes_max));
}

// Only the client being served can be answered at once. Other clients get their replies in their
// own turn, so that a key for which thousands wait holds up no client.
void StoreSessions::deliver(const Answer& answer) {
  const bool may_be_huge = std::holds_alternative<c10d::Values>(answer.reply) ||
                           std::holds_alternative<c10d::Keys>(answer.reply);
  if (may_be_huge && c10d::encoded_size(answer.reply) > bounds::store_reply_bytes_max) {
    return refuse_huge_reply(answer.to);
  }
  if (answer.to == served_) return c10d::encode(answer.reply, replies_);
  Session* const session = heard(answer.to);
  if (session == nullptr) return;
  encoded_.clear();
  c10d::encode(answer.reply, encoded_);
  outbox_of(*session).append(encoded_);
  queue_to_send(*session);
}

void StoreSessions::deliver(const SharedReply& shared_reply) {
  if (shared_reply.reply.size() > bounds::store_reply_bytes_max)
    return refuse_huge_reply(shared_reply.to);
  Session* const session = heard(shared_reply.to);
  if (session == nullptr) return;
  spend(shared_reply.reply.copied.size() +
        shared_reply.reply.shared.size() * bounds::store_work_of_request);
  Outbox& outbox = outbox_of(*session);
  if (shared_reply.to != served_) {
    outbox.append(shared_reply.reply);
    return queue_to_send(*session);
  }
  outbox.append(replies_);  // earlier replies
  replies_.clear();
  outbox.append(shared_reply.reply);
}

Outbox& StoreSessions::outbox_of(Session& session) {
  Backlog& backlog = backlog_of(session);
  if (backlog.outbox.empty()) backlog.last_taken = now_;
  return backlog.outbox;
}

void StoreSessions::queue_to_send(Session& session) {
  if (std::exchange(session.is_queued_to_send, true)) return;
  to_send_.push_back(session.id);
}

// --- output -------------------------------------------------------------------------------------

// The end of a visit: writes the replies, and everything that still waited for the client.
void StoreSessions::flush(Session& session, const std::string& last_reason) {
  const bool has_outbox = session.backlog != nullptr && !session.backlog->outbox.empty();
  if (has_outbox) {
    session.backlog->outbox.append(replies_);
    replies_.clear();
  }
  const bool has_something = has_outbox || !replies_.empty();
  if (has_something && !session.awaits_writable) {
    if (!has_outbox) gathered_for_ = session.id;
    actions_.emplace_back(
        session::Write{session.id, session.socket, session::Cause::own_requests, last_reason});
  } else if (!last_reason.empty()) {
    close(session, last_reason);
  } else {
    look_at_own(session);
  }
}

std::span<const std::string_view> StoreSessions::pieces(ConnectionId id,
                                                        std::span<std::string_view> room) const {
  const Session* const session = table_.find(id);
  if (session == nullptr || room.empty()) return {};
  if (gathered_for_ == id) {
    room[0] = replies_;
    return room.first(1);
  }
  if (session->backlog == nullptr) return {};
  return session->backlog->outbox.next(room, sent_bytes_max);
}

void StoreSessions::sent(const session::Write& write, std::size_t count) {
  Session* const session = table_.find(write.to);
  if (session == nullptr) return;
  spend(count);
  if (gathered_for_ == write.to) {
    take_gathered(*session, count);
  } else {
    take_from_outbox(*session, count);
  }
  if (!write.last_reason.empty()) return close(*session, write.last_reason);
  switch (write.cause) {
    case session::Cause::own_requests:
      return look_at_own(*session);
    case session::Cause::others:
      return look_at_others(*session);
    case session::Cause::socket_has_room:
      return resume(*session);
  }
}

void StoreSessions::take_gathered(Session& session, std::size_t count) {
  gathered_for_ = {};
  if (count < replies_.size()) {
    outbox_of(session).append(std::string_view(replies_).substr(count));
    session.awaits_writable = true;
    watch(session);
  }
  replies_.clear();
  // A single large reply is no reason to keep its memory.
  if (replies_.capacity() > replies_kept_max) replies_ = {};
}

void StoreSessions::take_from_outbox(Session& session, std::size_t count) {
  if (session.backlog == nullptr) return;
  Backlog& backlog = *session.backlog;
  if (count > 0) {
    backlog.last_taken = now_;
    backlog.outbox.drop_front(count);
  }
  if (session.awaits_writable == backlog.outbox.empty()) {
    session.awaits_writable = !session.awaits_writable;
    watch(session);
  }
  drop_empty_backlog(session);
}

void StoreSessions::writable(ConnectionId id) {
  const Session* const session = heard(id);
  if (session == nullptr || session->backlog == nullptr || session->backlog->outbox.empty()) return;
  actions_.emplace_back(session::Write{id, session->socket, session::Cause::socket_has_room});
}

bool StoreSessions::send_next() {
  if (wakes_left_ == 0 || work_left_ <= 0 || to_send_.empty()) {
    in_hand_ = {};
    return false;
  }
  --wakes_left_;
  return send_any();
}

bool StoreSessions::send_any() {
  in_hand_ = {};
  if (to_send_.empty()) return false;
  const ConnectionId id = to_send_.front();
  to_send_.pop_front();
  in_hand_ = id;
  Session* const session = heard(id);
  if (session == nullptr) return true;
  session->is_queued_to_send = false;
  if (session->backlog == nullptr || session->backlog->outbox.empty()) {
    drop_empty_backlog(*session);
  } else if (session->awaits_writable) {
    look_at_others(*session);
  } else {
    actions_.emplace_back(session::Write{id, session->socket, session::Cause::others});
  }
  return true;
}

// --- slow readers -------------------------------------------------------------------------------

void StoreSessions::look_at_own(Session& session) {
  if (session.backlog == nullptr) return;
  if (!session.is_paused && session.backlog->outbox.size() > limits_.outbox_bytes_max) {
    session.is_paused = true;
    watch(session);
    // One timer is enough, however often a slow reader is paused: it checks when bytes were last
    // taken.
    if (!std::exchange(session.is_timed, true)) {
      arm(TimerKind::stall, session.id, limits_.reader_stall_max);
    }
  }
  (void)settle(session);  // the session is not used after this, closed or not
}

// What other clients cause to be sent cannot be held back by not reading this client's requests.
void StoreSessions::look_at_others(Session& session) {
  if (session.backlog == nullptr || !settle(session) || is_replayed(session)) return;
  const std::size_t outbox_max =
      session.is_paused ? bounds::store_reply_bytes_max : limits_.outbox_bytes_max;
  const std::size_t waiting = session.backlog->outbox.size();
  if (waiting > outbox_max) {
    close(session, fmt::format("takes none of the {} bytes that wait for it", waiting));
  }
}

void StoreSessions::resume(Session& session) {
  if (session.backlog != nullptr && !settle(session)) return;
  if (!session.is_paused) return;
  if (session.backlog != nullptr && session.backlog->outbox.size() > limits_.outbox_bytes_max / 2) {
    return;
  }
  session.is_paused = false;
  watch(session);
  if (!session.awaits_turn) digest_inbox(session, false);
}

// --- memory ------------------------------------------------------------------------------------

Backlog& StoreSessions::backlog_of(Session& session) {
  if (session.backlog == nullptr) session.backlog = std::make_unique<Backlog>();
  return *session.backlog;
}

void StoreSessions::drop_empty_backlog(Session& session) {
  if (session.backlog == nullptr || !session.backlog->inbox.empty() ||
      !session.backlog->outbox.empty() || session.backlog->listing != nullptr) {
    return;
  }
  accounting_->credit(session.account, session.backlog->bytes_charged);
  session.backlog.reset();
}

bool StoreSessions::settle(Session& session) {
  Backlog& backlog = *session.backlog;
  const std::size_t held = backlog.inbox.size() + backlog.outbox.own_bytes() +
                           (backlog.listing ? backlog.listing->bytes.size() : 0);
  const std::size_t before = std::exchange(backlog.bytes_charged, held);
  if (held <= before) {
    accounting_->credit(session.account, before - held);
    return true;
  }
  const std::string objection = accounting_->objection(session.account, held - before);
  accounting_->charge(session.account, held - before);
  if (objection.empty() || is_replayed(session)) return true;
  close(session, objection);
  return false;
}

}  // namespace cpprun
