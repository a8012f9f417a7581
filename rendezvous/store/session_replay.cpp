// SPDX-License-Identifier: BSD-3-Clause
// How a process comes to the sessions and the answers of another one, from what that one has
// written down (store_log.h): the same bytes are looked at by the same decoder and carried out by
// the same store, in the same order. What differs is who decides when: here nobody is refused,
// paused or closed but where the other one has done so, and replies are kept for whoever takes them
// later.

#include <utility>

#include "rendezvous/store/store_sessions.h"

namespace cpprun {

namespace {

// A conversation as a number: the dialect, whether a whole request was decoded, whether it was let
// in.
constexpr std::uint64_t has_spoken_bit = 16;
constexpr std::uint64_t is_let_in_bit = 32;

std::uint64_t number_of(const Session& session) {
  return static_cast<std::uint64_t>(session.conversation.dialect) |
         (session.conversation.has_spoken ? has_spoken_bit : 0) |
         (session.speaks == Speaks::store ? is_let_in_bit : 0);
}

}  // namespace

// --- the one that decides ------------------------------------------------------------------------

void StoreSessions::hold(std::uint32_t port) {
  logs_.at(port).is_held = true;
}

void StoreSessions::let_go(std::uint32_t port) {
  PortLog& log = logs_.at(port);
  log.is_held = log.is_shown = false;
  for (const ConnectionId each : std::exchange(log.left, {})) leave_behind(port, each);
}

bool StoreSessions::can_be_shown(std::uint32_t port) const {
  if (is_busy() || next_action_ < actions_.size()) return false;
  for (const Session& session : table_.slots()) {
    if (session.id.value == 0 || session.port != port) continue;
    // What they leave behind would be passed on to somebody who was shown already.
    if (session.is_doomed) return false;
    if (session.backlog != nullptr && session.backlog->listing != nullptr) return false;
  }
  return true;
}

void StoreSessions::show(std::uint32_t port, const std::function<void(const Shown&)>& viewer) {
  logs_.at(port).is_shown = logs_.at(port).is_held;
  for (const Session& session : table_.slots()) {
    if (session.id.value == 0 || session.port != port || session.is_doomed) continue;
    Shown shown{.id = session.id,
                .socket = session.socket,
                .peer = session.peer,
                .conversation = number_of(session)};
    if (session.backlog != nullptr) {
      shown.inbox = session.backlog->inbox.view();
      shown.outbox = session.backlog->outbox.text();
    }
    viewer(shown);
  }
}

// --- the one that comes to the same --------------------------------------------------------------

void StoreSessions::restore(ConnectionId id, std::uint64_t conversation, std::string_view inbox,
                            std::string_view outbox) {
  Session* const session = heard(id);
  if (session == nullptr) return;
  session->conversation.dialect = static_cast<c10d::Dialect>(conversation & (has_spoken_bit - 1));
  session->conversation.has_spoken = (conversation & has_spoken_bit) != 0;
  if ((conversation & is_let_in_bit) != 0) {
    session->speaks = Speaks::store;
    if (Store* const store = store_of(*session)) store->keep_books_in(ledger_);
  }
  if (!inbox.empty()) backlog_of(*session).inbox.append(inbox);
  if (!outbox.empty()) {
    outbox_of(*session).append(outbox);
    queue_to_send(*session);
  }
  if (session->backlog != nullptr) (void)settle(*session);
}

void StoreSessions::replay_read(ConnectionId id, std::string_view bytes) {
  Session* const session = heard(id);
  if (session == nullptr || bytes.empty()) return;
  backlog_of(*session).inbox.append(bytes);
  (void)settle(*session);
}

bool StoreSessions::replay_decided(ConnectionId id, std::size_t count) {
  Session* const session = heard(id);
  const bool has_so_much =
      session != nullptr && session->backlog != nullptr && session->backlog->inbox.size() >= count;
  Store* const store = has_so_much ? store_of(*session) : nullptr;
  if (store == nullptr) return false;
  session->speaks = Speaks::store;
  store->keep_books_in(ledger_);
  c10d::Progress progress;
  const ByteBuffer::Memory place = take_inbox(*session);
  const std::string_view bytes =
      memory_ ? memory_->view().substr(place.start) : small_inbox_.view();
  const bool is_right = replay(*session, bytes, progress, count);
  put_back(*session, place, bytes.size(), count);
  keep(*session, {}, {}, {});
  if (session->id == id) drop_empty_backlog(*session);
  return is_right;
}

bool StoreSessions::replay(Session& session, std::string_view bytes, c10d::Progress& progress,
                           std::size_t count) {
  Store& store = *store_of(session);
  while (count > 0) {
    c10d::Decoded decoded = decoder_.decode(bytes, session.conversation, progress, false);
    if (std::holds_alternative<c10d::Ambiguous>(decoded)) {
      decoded = decoder_.decode(bytes, session.conversation, progress, true);
    }
    const auto* const complete = std::get_if<c10d::Complete>(&decoded);
    if (complete == nullptr || complete->size == 0 || complete->size > count) return false;
    begin_deciding();
    store.apply(session.id, complete->request, decided_, {session.account, memory_});
    for (const Action& action : decided_) {
      if (std::holds_alternative<Drop>(action)) return false;
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
  const bool has_so_much =
      session != nullptr && session->backlog != nullptr && session->backlog->inbox.size() >= count;
  Store* const store = has_so_much ? store_of(*session) : nullptr;
  if (store == nullptr) return false;
  session->speaks = Speaks::store;
  store->keep_books_in(ledger_);
  c10d::Progress progress;
  const c10d::Decoded decoded =
      decoder_.decode(session->backlog->inbox.view(), session->conversation, progress, true);
  const auto* const complete = std::get_if<c10d::Complete>(&decoded);
  if (complete == nullptr || complete->size != count) return false;
  replay_abandoned(id);
  session->backlog->inbox.drop_front(count);
  outbox_of(*session).append(reply);
  queue_to_send(*session);
  (void)settle(*session);
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

// All that follows from a request, at once: nobody is kept waiting by it here.
void StoreSessions::carry_on(Store& store) {
  while (store.has_unfinished()) {
    begin_deciding();
    store.go_on(bounds::store_told_in_turn, decided_);
    perform(decided_);
  }
}

// What they have asked and the other one has not decided is decided here.
void StoreSessions::end_replay(std::uint32_t port) {
  logs_.at(port).is_replayed = false;
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
    if (!session->backlog->inbox.empty()) queue_turn(*session);
    look_at_own(*session);
  }
}

}  // namespace cpprun
