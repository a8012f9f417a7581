// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/store_sessions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <memory>
#include <new>
#include <utility>

#include "proto/c10d/bounds.h"
#include "proto/c10d/codec.h"
#include "proto/sniff.h"
#include "proto/state_machine.h"
#include "rendezvous/client/bounds.h"
#include "rendezvous/store/bounds.h"

namespace cpprun {

namespace {

constexpr const char* lacks_memory = "out of memory";

// A sender of a large value holds up other clients for no longer than it takes to copy this much.
constexpr std::size_t large_read_max = 1024 * 1024;
// How much of the memory that gathered replies is kept for the next ones.
constexpr std::size_t replies_kept_max = 1024 * 1024;
// Taken from one outbox at once. The kernel copies that much in a fraction of a millisecond.
constexpr std::size_t sent_bytes_max = 1024 * 1024;

std::string asks_too_much() {
  return fmt::format("asked for a reply of more than {} bytes", bounds::store_reply_bytes_max);
}

}  // namespace

StoreSessions::StoreSessions(SessionLimits limits, std::shared_ptr<MemoryAccounting> accounting)
    : limits_(limits),
      accounting_(std::move(accounting)),
      turns_(limits.work_per_turn, limits.wakes_per_slice) {
  accounting_->tend(true);
}

StoreSessions::~StoreSessions() {
  // Stores that outlive this free their own memory.
  accounting_->tend(false);
}

// --- ports -------------------------------------------------------------------------------------

void StoreSessions::open_port(std::uint32_t port, FindStore store, TakenProtocols taken) {
  if (ports_.size() <= port) ports_.resize(port + 1);
  unfinished_.reserve(ports_.size());  // so that noticing one needs no memory
  ports_[port] = {.store = std::move(store), .taken = taken};
}

std::size_t StoreSessions::close_port(std::uint32_t port, const std::string& reason) {
  ports_[port] = {};
  return doomed_.add_all_of(port, table_, reason, /*with_unidentified=*/true);
}

// --- connections --------------------------------------------------------------------------------

ConnectionId StoreSessions::open(int socket, const PeerAddress& peer, std::uint32_t port,
                                 c10d::Dialect dialect) {
  Session& session = table_.open(socket, peer, port);
  session.account = accounting_->open_connection(peer);
  session.conversation.dialect = dialect;
  // Closing a connection without a socket frees no descriptor.
  if (socket >= 0) unidentified_connections_.add(session.id, table_);
  return session.id;
}

// The connection is not heard again. Other clients may be affected by what it leaves behind.
void StoreSessions::close(Session& session, const std::string& reason, bool is_ordinary) {
  const ConnectionId id = session.id;
  const std::uint32_t port = session.port;
  const bool was_client = session.speaks == Speaks::store;
  actions_.emplace_back(session::Close{.socket = session.socket,
                                       .port = port,
                                       .peer = session.peer,
                                       .was_client = was_client,
                                       .is_ordinary = is_ordinary,
                                       .reason = reason});
  Store* const store = was_client ? store_of(session) : nullptr;
  if (StoreJournal* const journal = journal_of(session)) {
    // Half of its request was carried out.
    if (long_ && long_->from() == id) journal->lost();
    journal->closed(id);
  }
  // Part of the store was shown with it, so its end must come after all of that.
  const bool is_for_later = store != nullptr && ports_[port].is_shown;
  if (is_for_later) ports_[port].left.push_back(id);
  detach(session);
  spend(bounds::store_work_of_connection);
  if (store != nullptr && !is_for_later) leave_behind(port, id);
}

void StoreSessions::leave_behind(std::uint32_t port, ConnectionId id) {
  const FindStore& find = ports_[port].store;
  if (!find) return;
  Actions left_behind;
  find().forget(id, left_behind);
  perform(left_behind);
  notice_unfinished(port);
}

void StoreSessions::detach(Session& session) {
  session.drop_backlog(*accounting_);
  accounting_->close_connection(session.account);
  if (gathered_for_ == session.id) {
    gathered_for_ = {};
    replies_.clear();
  }
  table_.release(session);
}

void StoreSessions::watch(const Session& session) {
  actions_.emplace_back(session::Watch{.id = session.id,
                                       .socket = session.socket,
                                       .for_bytes = !session.is_paused,
                                       .for_room = session.awaits_writable});
}

std::optional<SessionAction> StoreSessions::next_action() {
  if (next_action_ < actions_.size()) return std::move(actions_[next_action_++]);
  actions_.clear();
  next_action_ = 0;
  return std::nullopt;
}

// --- input --------------------------------------------------------------------------------------

std::span<char> StoreSessions::room(ConnectionId id) {
  Session* const session = heard(id);
  // What has arrived is decided first.
  if (session == nullptr || session->awaits_turn || session->is_paused) return {};
  if (ports_[session->port].is_held || is_replayed(*session)) return {};
  if (!session->is_received_in_place()) return {read_.get(), bounds::store_read_bytes};
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
  const bool is_in_place = session->is_received_in_place();
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
    if (!charge_backlog_or_close(*session)) return;
    if (backlog->inbox.size() >= backlog->inbox_needed) digest_inbox(*session, false);
    return;
  }
  // The usual case: complete requests, which need no memory of their own.
  Visit visit{.bytes = bytes};
  digest(*session, visit);
  if (visit.is_gone || visit.consumed == bytes.size()) return;
  keep(*session, bytes.substr(visit.consumed), visit);
}

void StoreSessions::keep(Session& session, std::string_view rest, const Visit& visit) {
  Backlog& backlog = session.open_backlog();
  backlog.inbox.append(rest);
  backlog.inbox_needed = visit.needed;
  backlog.progress = visit.progress;
  (void)charge_backlog_or_close(session);  // the session is not used after this, closed or not
}

// The first bytes show the protocol. They are kept until the connection is admitted.
void StoreSessions::greet(Session& session, std::string_view received) {
  const bool is_first = session.backlog == nullptr;
  ByteBuffer& inbox = session.open_backlog().inbox;
  inbox.append(received);
  const std::string_view bytes = inbox.view();
  const Protocol speaks = sniff(bytes);
  switch (speaks) {
    case Protocol::undecided:
      // A connection that sends nothing at all may stay: old clients open a second one and keep it.
      if (is_first) turns_.arm(TimerKind::greeting, session.id, bounds::first_message_timeout);
      (void)charge_backlog_or_close(session);
      return;
    case Protocol::link:
    case Protocol::http:
    case Protocol::secure:
      if (ports_[session.port].taken.includes(speaks)) return hand_over(session, speaks);
      [[fallthrough]];
    case Protocol::unknown:
      return close(session,
                   fmt::format("{} on a port for store clients and agents", describe(bytes)));
    case Protocol::store:
      if (!charge_backlog_or_close(session)) return;
      actions_.emplace_back(session::Admit{
          .id = session.id, .socket = session.socket, .port = session.port, .peer = session.peer});
      return;
  }
}

void StoreSessions::hand_over(Session& session, Protocol speaks) {
  if (StoreJournal* const journal = journal_of(session)) journal->closed(session.id);
  actions_.emplace_back(
      session::HandOver{.socket = session.socket,
                        .port = session.port,
                        .peer = session.peer,
                        .speaks = speaks,
                        .first_bytes = std::string(session.open_backlog().inbox.view())});
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

void StoreSessions::digest_inbox(Session& session, bool grace_over) {
  if (session.backlog == nullptr || session.backlog->inbox.empty()) return;
  TakenInbox inbox(session, *accounting_);
  Visit visit{.bytes = inbox.bytes(),
              .inbox = &inbox,
              .progress = session.backlog->progress,
              .grace_over = grace_over};
  digest(session, visit);
  if (visit.is_gone) return;
  inbox.put_back(session, visit.consumed);
  const ConnectionId id = session.id;
  keep(session, {}, visit);
  if (session.id == id) session.drop_empty_backlog(*accounting_);
}

void StoreSessions::digest(Session& session, Visit& visit) {
  // Earlier output must have been written, or these replies would go to another client.
  assert(replies_.empty() && gathered_for_ == ConnectionId{});
  const ConnectionId id = session.id;
  served_ = id;
  session.is_ambiguous = false;
  decide(session, visit);
  served_ = {};
  const std::string last_reason = std::exchange(last_reason_, {});
  if (session.id != id) {
    replies_.clear();
    visit.is_gone = true;
    return;
  }
  // Requests before the malformed one are still answered.
  flush(session, last_reason);
  if (session.id != id || !last_reason.empty()) visit.is_gone = true;
}

void StoreSessions::decide(Session& session, Visit& visit) {
  const ConnectionId id = session.id;
  const std::ptrdiff_t end_of_visit =
      work_left() - static_cast<std::ptrdiff_t>(limits_.work_per_visit);
  Store* const store = store_of(session);
  if (store == nullptr || is_replayed(session)) return;
  if (ports_[session.port].is_held) return turns_.decide_later(session);
  if (store->abandon_large_wait(id)) {
    if (StoreJournal* const journal = journal_of(session)) journal->abandoned(id);
    queue_unfinished(session);
  }
  while (visit.consumed < visit.bytes.size() && !session.is_paused) {
    const std::size_t waiting = session.backlog == nullptr ? 0 : session.backlog->outbox.size();
    const bool has_enough = replies_.size() >= bounds::store_gather_bytes ||
                            waiting > limits_.outbox_bytes_max || work_left() < end_of_visit;
    if (has_enough || session.awaits_turn || is_busy()) return turns_.decide_later(session);
    const std::string_view rest(visit.bytes.begin() + visit.consumed, visit.bytes.end());
    const c10d::Decoded decoded =
        decoder_.decode(rest, session.conversation, visit.progress, visit.grace_over);
    if (const auto* complete = std::get_if<c10d::Complete>(&decoded)) {
      carry_out(session, *store, *complete, visit);
      visit.is_gone = session.id != id || !last_reason_.empty();
      if (visit.is_gone) return;
      visit.consumed += complete->size;
      visit.grace_over = false;
      if (is_busy()) return;
    } else if (const auto* more = std::get_if<c10d::NeedMore>(&decoded)) {
      visit.needed = more->size;
      return;
    } else if (const auto* malformed = std::get_if<c10d::Malformed>(&decoded)) {
      last_reason_ = malformed->reason;
      visit.is_gone = true;
      return;
    } else {
      session.is_ambiguous = true;
      turns_.arm(TimerKind::ambiguity, id, bounds::store_dialect_grace);
      visit.needed = rest.size() + 1;
      return;
    }
  }
}

void StoreSessions::carry_out(Session& session, Store& store, const c10d::Complete& complete,
                              const Visit& visit) {
  if (std::holds_alternative<c10d::ListKeys>(complete.request) &&
      store.key_count() > bounds::store_keys_listed_at_once) {
    if (StoreJournal* const journal = journal_of(session)) journal->abandoned(session.id);
    begin_deciding();
    store.abandon_wait(session.id, decided_);
    perform(decided_);
    auto& listing = session.open_backlog().listing = std::make_unique<Listing>();
    listing->asked = complete.size;
    return turns_.decide_later(session);
  }
  if (visit.inbox != nullptr && LongRequest::is_one(complete.request, visit.memory())) {
    return begin_long(session, complete, {session.account, visit.memory()});
  }
  const ConnectionId from = session.id;
  const std::size_t replies_before = replies_.size();
  begin_deciding();
  const bool is_whole = visit.inbox == nullptr;
  if (is_whole && store.apply_alone(from, complete.request, session.account, replies_)) {
    if (StoreJournal* const journal = journal_of(session)) journal->decided(from, complete.size);
    const std::size_t replied = replies_.size() - replies_before;
    return spend(2 * bounds::store_work_of_request + complete.size + replied);
  }
  store.apply(from, complete.request, decided_, {session.account, visit.memory()});
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
    if (std::holds_alternative<Disconnect>(action)) return;
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

// The client's further requests wait until its store has finished what it began.
void StoreSessions::queue_unfinished(Session& session) {
  notice_unfinished(session.port);
  turns_.decide_later(session);
}

// Returns false if there are more keys to list, or the connection is gone.
bool StoreSessions::go_on_listing(Session& session) {
  if (session.backlog == nullptr || session.backlog->listing == nullptr) return true;
  Store* const store = store_of(session);
  if (store == nullptr) return false;
  Listing& listing = *session.backlog->listing;
  std::size_t work = 0;
  const bool is_whole = listing.go_on(*store, work);
  spend(work);
  if (!charge_backlog_or_close(session)) return false;
  if (!is_whole) {
    turns_.decide_later(session);
    return false;
  }
  const SharedReply shared_reply = listing.reply(session.id, *accounting_, session.account);
  const std::size_t asked = listing.asked;
  session.backlog->listing.reset();
  if (StoreJournal* const journal = journal_of(session)) {
    journal->listed(session.id, asked, shared_reply.reply.text());
  }
  const ConnectionId id = session.id;
  deliver(shared_reply);
  return session.id == id && charge_backlog_or_close(session);
}

// --- long requests ------------------------------------------------------------------------------

void StoreSessions::begin_long(Session& session, const c10d::Complete& complete,
                               const Origin& origin) {
  begin_deciding();
  const std::string objection =
      store_of(session)->begin_parts(session.id, complete.request, origin, decided_);
  perform(decided_);
  if (!objection.empty()) return end(session.id, objection);
  if (auto* const journal = journal_of(session)) journal->decided(session.id, complete.size);
  long_.emplace(session.id, complete.request, origin);
}

// Carries out one part. After the last one, the connection gets an ordinary turn.
bool StoreSessions::go_on_with_long() {
  if (!long_) return false;
  Session* const session = heard(long_->from());
  Store* const store = session == nullptr ? nullptr : store_of(*session);
  if (store == nullptr) {
    long_.reset();  // its store was emptied or closed, too
    return true;
  }
  const std::uint32_t port = session->port;
  begin_deciding();
  long_->go_on(*store, decided_);
  perform(decided_);
  if (!long_) return true;
  notice_unfinished(port);
  if (long_->is_done()) end_long();
  return true;
}

void StoreSessions::end_long() {
  LongRequest request = *std::exchange(long_, std::nullopt);
  Session* const session = heard(request.from());
  const Store* const store = session == nullptr ? nullptr : store_of(*session);
  if (store == nullptr) return;
  turns_.decide_later(*session);
  Actions last;
  request.end(*store, last);
  perform(last);
}

// --- what the store has decided -----------------------------------------------------------------

void StoreSessions::perform(const Actions& actions) {
  for (const Action& action : actions) {
    if (const auto* answer = std::get_if<Answer>(&action)) {
      deliver(*answer);
    } else if (const auto* shared_reply = std::get_if<SharedReply>(&action)) {
      deliver(*shared_reply);
    } else if (const auto* drop = std::get_if<Disconnect>(&action)) {
      end(drop->connection, drop->reason);
    }
    if (&actions == &decided_) ++performed_;
  }
}

// Only the client being served can be answered at once. Other clients get their replies in their
// own turn, so that a key for which thousands wait holds up no client.
void StoreSessions::deliver(const Answer& answer) {
  const bool may_be_huge = std::holds_alternative<c10d::Values>(answer.reply) ||
                           std::holds_alternative<c10d::Keys>(answer.reply);
  if (may_be_huge && c10d::encoded_size(answer.reply) > bounds::store_reply_bytes_max) {
    return end(answer.to, asks_too_much());
  }
  if (answer.to == served_) return c10d::encode(answer.reply, replies_);
  Session* const session = heard(answer.to);
  if (session == nullptr) return;
  encoded_.clear();
  c10d::encode(answer.reply, encoded_);
  outbox_of(*session).append(encoded_);
  turns_.send_later(*session);
}

void StoreSessions::deliver(const SharedReply& shared_reply) {
  if (shared_reply.reply.size() > bounds::store_reply_bytes_max) {
    return end(shared_reply.to, asks_too_much());
  }
  Session* const session = heard(shared_reply.to);
  if (session == nullptr) return;
  spend(shared_reply.reply.copied.size() +
        shared_reply.reply.shared.size() * bounds::store_work_of_request);
  Outbox& outbox = outbox_of(*session);
  if (shared_reply.to != served_) {
    outbox.append(shared_reply.reply);
    return turns_.send_later(*session);
  }
  outbox.append(replies_);  // earlier replies
  replies_.clear();
  outbox.append(shared_reply.reply);
}

Outbox& StoreSessions::outbox_of(Session& session) {
  Backlog& backlog = session.open_backlog();
  if (backlog.outbox.empty()) backlog.last_taken = turns_.now();
  return backlog.outbox;
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
    backlog.last_taken = turns_.now();
    backlog.outbox.drop_front(count);
  }
  if (session.awaits_writable == backlog.outbox.empty()) {
    session.awaits_writable = !session.awaits_writable;
    watch(session);
  }
  session.drop_empty_backlog(*accounting_);
}

void StoreSessions::writable(ConnectionId id) {
  const Session* const session = heard(id);
  if (session == nullptr || session->backlog == nullptr || session->backlog->outbox.empty()) return;
  actions_.emplace_back(session::Write{id, session->socket, session::Cause::socket_has_room});
}

bool StoreSessions::send(std::optional<ConnectionId> to) {
  in_hand_ = to.value_or(ConnectionId{});
  if (!to) return false;
  Session* const session = heard(*to);
  if (session == nullptr) return true;
  session->is_queued_to_send = false;
  if (session->backlog == nullptr || session->backlog->outbox.empty()) {
    session->drop_empty_backlog(*accounting_);
  } else if (session->awaits_writable) {
    look_at_others(*session);
  } else {
    actions_.emplace_back(session::Write{*to, session->socket, session::Cause::others});
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
      turns_.arm(TimerKind::stall, session.id, limits_.reader_stall_max);
    }
  }
  (void)charge_backlog_or_close(session);  // the session is not used after this, closed or not
}

// What other clients cause to be sent cannot be held back by not reading this client's requests.
void StoreSessions::look_at_others(Session& session) {
  if (session.backlog == nullptr || !charge_backlog_or_close(session) || is_replayed(session))
    return;
  const std::size_t outbox_max =
      session.is_paused ? bounds::store_reply_bytes_max : limits_.outbox_bytes_max;
  const std::size_t waiting = session.backlog->outbox.size();
  if (waiting > outbox_max) {
    close(session,
          fmt::format("reads too slowly: {} bytes are pending for it, and the maximum is {}",
                      waiting, outbox_max));
  }
}

void StoreSessions::resume(Session& session) {
  if (session.backlog != nullptr && !charge_backlog_or_close(session)) return;
  if (!session.is_paused) return;
  if (session.backlog != nullptr && session.backlog->outbox.size() > limits_.outbox_bytes_max / 2) {
    return;
  }
  session.is_paused = false;
  watch(session);
  if (!session.awaits_turn) digest_inbox(session, false);
}

bool StoreSessions::charge_backlog_or_close(Session& session) {
  const std::string objection = session.charge_backlog(*accounting_);
  if (objection.empty() || is_replayed(session)) return true;
  close(session, objection);
  return false;
}

// --- turns -------------------------------------------------------------------------------------

void StoreSessions::begin_turn(TimePoint now) {
  turns_.begin(now);
  accounting_->free_some(limits_.work_per_turn);
  try {
    doomed_.recover(table_, lacks_memory);
  } catch (const std::bad_alloc&) {
    lack_memory({});  // the next turn tries again
  }
}

bool StoreSessions::has_more() const {
  return turns_.has_more() || !doomed_.empty() || is_busy() || accounting_->has_deferred();
}

// Closing a connection costs the kernel more than serving one. Half of the work is left for others.
bool StoreSessions::close_next() {
  if (doomed_.empty() || !turns_.has_half()) return false;
  const DoomedConnections::Doomed doomed = doomed_.front();
  close(doomed.id, *doomed.reason);
  doomed_.pop_front();  // not earlier: if there is no memory for it, it is tried again
  return true;
}

// Serves clients whose requests were more than one visit could decide, each in its turn.
bool StoreSessions::decide_next() {
  in_hand_ = {};
  if (is_busy()) return false;
  const auto id = turns_.next_to_decide();
  if (!id) return false;
  in_hand_ = *id;
  Session* const session = heard(*id);
  if (session == nullptr) return true;
  session->awaits_turn = false;
  const bool is_listing = session->backlog != nullptr && session->backlog->listing != nullptr;
  if (ports_[session->port].is_held && !is_listing) {
    turns_.decide_later(*session);
  } else if (go_on_listing(*session)) {
    digest_inbox(*session, false);
  }
  return true;
}

// A request may concern more clients than one turn can notify. Nothing else is decided until all of
// them are notified.
bool StoreSessions::go_on_with_stores() {
  for (; !unfinished_.empty(); unfinished_.pop_back()) {
    const FindStore& find = ports_[unfinished_.back()].store;
    if (!find || !find().has_unfinished()) continue;
    begin_deciding();
    find().go_on(bounds::store_told_in_turn, decided_);
    perform(decided_);
    return true;
  }
  return false;
}

void StoreSessions::notice_unfinished(std::uint32_t port) {
  const FindStore& find = ports_[port].store;
  if (!find || !find().has_unfinished()) return;
  if (std::ranges::find(unfinished_, port) == unfinished_.end()) unfinished_.push_back(port);
}

bool StoreSessions::advance_next() {
  const auto timer = turns_.next_timer();
  in_hand_ = timer ? timer->id : ConnectionId{};
  if (!timer) return false;
  Session* const session = heard(timer->id);
  if (session == nullptr) return true;
  switch (timer->kind) {
    case TimerKind::ambiguity:
      if (session->is_ambiguous) digest_inbox(*session, true);
      break;
    case TimerKind::greeting:
      if (session->speaks == Speaks::unknown_yet) {
        close(*session, "incomplete greeting");
      }
      break;
    case TimerKind::stall:
      look_at_reader(*session);
      break;
  }
  return true;
}

// Drops a paused client that has taken nothing for too long.
void StoreSessions::look_at_reader(Session& session) {
  session.is_timed = false;
  if (!session.is_paused || is_replayed(session)) return;
  const Duration idle = turns_.now() - session.backlog->last_taken;
  const bool is_held = ports_[session.port].is_held;
  if (is_held || idle < limits_.reader_stall_max) {
    session.is_timed = true;
    return turns_.arm(TimerKind::stall, session.id,
                      is_held ? limits_.reader_stall_max / 16 : limits_.reader_stall_max - idle);
  }
  close(session, fmt::format("did not read any of the {} bytes pending for it in the last {} ms",
                             session.backlog->outbox.size(),
                             std::chrono::duration_cast<std::chrono::milliseconds>(idle).count()));
}

// --- memory ------------------------------------------------------------------------------------

// Closing needs memory as well, so the reserve is given up first. If even that is not enough, the
// connection is closed as soon as there is memory.
void StoreSessions::lack_memory(ConnectionId id) {
  doomed_.free_reserve();
  for (const Port& port : ports_) {
    if (port.journal != nullptr) port.journal->lost();
  }
  served_ = {};
  gathered_for_ = {};
  replies_ = {};
  last_reason_ = {};
  doom_unanswered();
  decided_ = {};
  performed_ = 0;
  // Its request is half done and would never be answered.
  const ConnectionId interrupted = long_ ? long_->from() : id;
  long_.reset();
  const ConnectionId in_hand = id == ConnectionId{} ? std::exchange(in_hand_, {}) : id;
  for (const ConnectionId each : {in_hand, interrupted}) {
    Session* session = heard(each);
    if (session == nullptr) continue;
    try {
      close(*session, lacks_memory);
    } catch (const std::bad_alloc&) {
      session = heard(each);
      if (session != nullptr) doomed_.add_unlisted(*session);
    }
  }
}

// Replies that were decided and not delivered are lost: their clients would wait forever, so they
// are closed. What a store has begun is continued.
void StoreSessions::doom_unanswered() {
  for (std::size_t at = performed_; at < decided_.size(); ++at) {
    const ConnectionId to =
        std::visit(Overloaded{[](const Disconnect& drop) { return drop.connection; },
                              [](const auto& said) { return said.to; }},
                   decided_[at]);
    if (Session* const session = heard(to)) doomed_.add_unlisted(*session);
  }
  for (std::uint32_t port = 0; port < ports_.size(); ++port) notice_unfinished(port);
}

// --- replication --------------------------------------------------------------------------------

// How a process arrives at the sessions and answers of another one, from the log of that one
// (store_log.h): the same decoder reads the same bytes and the same store carries them out, in the
// same order. Only the decisions are not made here. No client is rejected, paused or closed unless
// the other process has done so, and replies are kept for clients that read them later.

void StoreSessions::let_go(std::uint32_t port) {
  Port& its = ports_.at(port);
  its.is_held = its.is_shown = false;
  for (const ConnectionId each : std::exchange(its.left, {})) leave_behind(port, each);
}

bool StoreSessions::can_be_shown(std::uint32_t port) const {
  if (is_busy() || next_action_ < actions_.size()) return false;
  for (const Session& session : table_.slots()) {
    if (session.id.value == 0 || session.port != port) continue;
    // What they leave behind would be passed on to clients that were already shown.
    if (session.is_doomed) return false;
    if (session.backlog != nullptr && session.backlog->listing != nullptr) return false;
  }
  return true;
}

void StoreSessions::show(std::uint32_t port, const std::function<void(const Shown&)>& viewer) {
  ports_.at(port).is_shown = ports_.at(port).is_held;
  for (const Session& session : table_.slots()) {
    if (session.id.value == 0 || session.port != port || session.is_doomed) continue;
    Shown shown{.id = session.id,
                .socket = session.socket,
                .peer = session.peer,
                .conversation = session.conversation_number()};
    if (session.backlog != nullptr) {
      shown.inbox = session.backlog->inbox.view();
      shown.outbox = session.backlog->outbox.text();
    }
    viewer(shown);
  }
}

void StoreSessions::restore(ConnectionId id, std::uint64_t conversation, std::string_view inbox,
                            std::string_view outbox) {
  Session* const session = heard(id);
  if (session == nullptr) return;
  session->restore_conversation(conversation);
  Store* const store = session->speaks == Speaks::store ? store_of(*session) : nullptr;
  if (store != nullptr) store->keep_books_in(accounting_);
  if (!inbox.empty()) session->open_backlog().inbox.append(inbox);
  if (!outbox.empty()) {
    outbox_of(*session).append(outbox);
    turns_.send_later(*session);
  }
  if (session->backlog != nullptr) (void)charge_backlog_or_close(*session);
}

void StoreSessions::replay_read(ConnectionId id, std::string_view bytes) {
  Session* const session = heard(id);
  if (session == nullptr || bytes.empty()) return;
  session->open_backlog().inbox.append(bytes);
  (void)charge_backlog_or_close(*session);
}

// The store for the next `count` bytes of the client. Null if there are fewer.
Store* StoreSessions::store_to_replay(Session* session, std::size_t count) {
  const bool has_so_much =
      session != nullptr && session->backlog != nullptr && session->backlog->inbox.size() >= count;
  Store* const store = has_so_much ? store_of(*session) : nullptr;
  if (store == nullptr) return nullptr;
  session->speaks = Speaks::store;
  store->keep_books_in(accounting_);
  return store;
}

bool StoreSessions::replay_decided(ConnectionId id, std::size_t count) {
  Session* const session = heard(id);
  Store* const store = store_to_replay(session, count);
  if (store == nullptr) return false;
  TakenInbox inbox(*session, *accounting_);
  const bool is_right = replay(*session, *store, inbox, count);
  inbox.put_back(*session, count);
  keep(*session, {}, {});
  if (session->id == id) session->drop_empty_backlog(*accounting_);
  return is_right;
}

bool StoreSessions::replay(Session& session, Store& store, const TakenInbox& inbox,
                           std::size_t count) {
  std::string_view bytes = inbox.bytes();
  c10d::Progress progress;
  while (count > 0) {
    c10d::Decoded decoded = decoder_.decode(bytes, session.conversation, progress, false);
    if (std::holds_alternative<c10d::Ambiguous>(decoded)) {
      decoded = decoder_.decode(bytes, session.conversation, progress, true);
    }
    const auto* const complete = std::get_if<c10d::Complete>(&decoded);
    if (complete == nullptr || complete->size == 0 || complete->size > count) return false;
    begin_deciding();
    store.apply(session.id, complete->request, decided_, {session.account, inbox.chunk()});
    for (const Action& action : decided_) {
      if (std::holds_alternative<Disconnect>(action)) return false;
    }
    perform(decided_);
    carry_on(store);
    bytes.remove_prefix(complete->size);
    count -= complete->size;
    progress = {};
  }
  return true;
}

bool StoreSessions::replay_listed(ConnectionId id, std::size_t count, std::string_view reply) {
  Session* const session = heard(id);
  if (store_to_replay(session, count) == nullptr) return false;
  c10d::Progress progress;
  const c10d::Decoded decoded =
      decoder_.decode(session->backlog->inbox.view(), session->conversation, progress, true);
  const auto* const complete = std::get_if<c10d::Complete>(&decoded);
  if (complete == nullptr || complete->size != count) return false;
  replay_abandoned(id);
  session->backlog->inbox.drop_front(count);
  outbox_of(*session).append(reply);
  turns_.send_later(*session);
  (void)charge_backlog_or_close(*session);
  return true;
}

void StoreSessions::replay_abandoned(ConnectionId id) {
  Session* const session = heard(id);
  Store* const store = session == nullptr ? nullptr : store_of(*session);
  if (store == nullptr) return;
  begin_deciding();
  store->abandon_wait(id, decided_);
  perform(decided_);
  carry_on(*store);
}

// Everything that follows from a request, at once: no client waits for it here.
void StoreSessions::carry_on(Store& store) {
  while (store.has_unfinished()) {
    begin_deciding();
    store.go_on(bounds::store_told_in_turn, decided_);
    perform(decided_);
  }
}

// Requests that the other process has not decided are decided here.
void StoreSessions::end_replay(std::uint32_t port) {
  ports_.at(port).is_replayed = false;
  std::vector<ConnectionId> clients;
  for (const Session& session : table_.slots()) {
    const bool is_of = session.id.value != 0 && session.port == port && !session.is_doomed;
    if (is_of && session.backlog != nullptr) clients.push_back(session.id);
  }
  for (const ConnectionId id : clients) {
    Session* const session = heard(id);
    if (session == nullptr || session->backlog == nullptr) continue;
    if (session->speaks == Speaks::unknown_yet) {
      greet(*session, {});
      continue;
    }
    if (!session->backlog->inbox.empty()) turns_.decide_later(*session);
    look_at_own(*session);
  }
}

// Invariants of sessions between two turns. Simulated and explored runs check them after each turn.

std::optional<std::string> StoreSessions::check() const {
  if (next_action_ < actions_.size()) return std::nullopt;  // half done
  if (gathered_for_.value != 0 || !replies_.empty()) return "replies without a recipient";
  if (served_.value != 0 || !last_reason_.empty()) return "a turn without an end";
  for (const Session& session : table_.slots()) {
    if (session.id.value == 0 || session.is_doomed) continue;
    if (auto broken = check(session)) return broken;
  }
  return std::nullopt;
}

// No client is forgotten: a client with something to be decided or sent is queued, or waits for its
// socket.
std::optional<std::string> StoreSessions::check(const Session& session) const {
  if (auto broken = session.check()) return broken;
  const auto of = [&session](const char* what) {
    return fmt::format("connection {} {}", session.id.value, what);
  };
  if (session.awaits_turn && !turns_.will_decide(session.id)) {
    return of("waits for a turn that never comes");
  }
  if (session.backlog == nullptr) return std::nullopt;
  const Backlog& backlog = *session.backlog;
  const bool is_left = backlog.inbox.size() >= std::max<std::size_t>(backlog.inbox_needed, 1);
  const bool is_held =
      session.awaits_turn || session.is_paused || (long_ && long_->from() == session.id);
  if (session.speaks == Speaks::store && is_left && !is_held && !is_replayed(session)) {
    return of("has requests that will never be decided");
  }
  return std::nullopt;
}

}  // namespace cpprun
