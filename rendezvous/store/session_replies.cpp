// SPDX-License-Identifier: BSD-3-Clause
// How what the store decides becomes bytes, and what becomes of those that are not taken. The
// replies to one client's requests leave in one write; a large value leaves from where it lies, a
// slice in each turn.

#include <fmt/format.h>

#include <utility>

#include "proto/c10d/encoder.h"
#include "rendezvous/store/store_sessions.h"

namespace cpprun {
namespace {

// Of the memory that gathered replies, what is kept for the next ones.
constexpr std::size_t replies_kept_max = 1024 * 1024;
// Taken from one outbox at once. The kernel copies that much in a fraction of a millisecond.
constexpr std::size_t sent_bytes_max = 1024 * 1024;

}  // namespace

// --- actions -------------------------------------------------------------------------------------

void StoreSessions::perform(const Actions& actions) {
  for (const Action& action : actions) {
    if (const auto* answer = std::get_if<Answer>(&action)) {
      deliver(*answer);
    } else if (const auto* parcel = std::get_if<Parcel>(&action)) {
      deliver(*parcel);
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

// Only the client that is being served can be answered at once; the others get what is theirs
// in their turn, so that a key for which thousands wait holds nobody up.
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

void StoreSessions::deliver(const Parcel& parcel) {
  if (parcel.reply.size() > bounds::store_reply_bytes_max) return refuse_huge_reply(parcel.to);
  Session* const session = heard(parcel.to);
  if (session == nullptr) return;
  spend(parcel.reply.copied.size() + parcel.reply.shared.size() * bounds::store_work_of_request);
  Outbox& outbox = outbox_of(*session);
  if (parcel.to != served_) {
    outbox.append(parcel.reply);
    return queue_to_send(*session);
  }
  outbox.append(replies_);  // what was answered before it
  replies_.clear();
  outbox.append(parcel.reply);
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

// --- out ---------------------------------------------------------------------------------------

// The end of a visit: what it was answered is to be written, and whatever still waited for it.
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
  // One large reply is no reason to keep its memory.
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

// --- those who do not take it ------------------------------------------------------------------

void StoreSessions::look_at_own(Session& session) {
  if (session.backlog == nullptr) return;
  if (!session.is_paused && session.backlog->outbox.size() > limits_.outbox_bytes_max) {
    session.is_paused = true;
    watch(session);
    // One timer is enough, however often a slow reader is paused: it looks at when bytes were
    // taken.
    if (!std::exchange(session.is_timed, true)) {
      arm(TimerKind::stall, session.id, limits_.reader_stall_max);
    }
  }
  (void)settle(session);  // nothing is done with it here, closed or not
}

// What others cause to be sent to it cannot be held back by leaving its requests alone.
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
  ledger_->credit(session.account, session.backlog->bytes_charged);
  session.backlog.reset();
}

bool StoreSessions::settle(Session& session) {
  Backlog& backlog = *session.backlog;
  const std::size_t held = backlog.inbox.size() + backlog.outbox.own_bytes() +
                           (backlog.listing ? backlog.listing->bytes.size() : 0);
  const std::size_t before = std::exchange(backlog.bytes_charged, held);
  if (held <= before) {
    ledger_->credit(session.account, before - held);
    return true;
  }
  const std::string objection = ledger_->objection(session.account, held - before);
  ledger_->charge(session.account, held - before);
  if (objection.empty() || is_replayed(session)) return true;
  close(session, objection);
  return false;
}

}  // namespace cpprun
