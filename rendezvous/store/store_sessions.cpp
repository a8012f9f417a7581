// SPDX-License-Identifier: BSD-3-Clause
// Ports, connections, turns and timers. How requests become replies is in session_requests.cpp.

#include "rendezvous/store/store_sessions.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "proto/state_machine.h"

namespace cpprun {

namespace {

constexpr const char* lacks_memory = "there is no memory for what it wants";

}  // namespace

StoreSessions::StoreSessions(SessionLimits limits, std::shared_ptr<MemoryAccounting> accounting)
    : limits_(limits), accounting_(std::move(accounting)) {
  accounting_->tend(true);
}

StoreSessions::~StoreSessions() {
  // Stores that outlive this free their own memory.
  accounting_->tend(false);
}

// --- ports -------------------------------------------------------------------------------------

void StoreSessions::open_port(std::uint32_t port, FindStore store, TakenProtocols taken) {
  if (ports_.size() <= port) ports_.resize(port + 1);
  taken_.resize(ports_.size());
  taken_[port] = taken;
  logs_.resize(ports_.size());
  logs_[port] = {};
  unfinished_.reserve(ports_.size());  // so that noticing one needs no memory
  ports_[port] = std::move(store);
}

std::size_t StoreSessions::close_port(std::uint32_t port, const std::string& reason) {
  ports_[port] = nullptr;
  logs_[port] = {};
  return doom(port, reason, true);
}

std::size_t StoreSessions::close_clients(std::uint32_t port, const std::string& reason) {
  return doom(port, reason, false);
}

std::size_t StoreSessions::doom(std::uint32_t port, const std::string& reason,
                                bool with_strangers) {
  const auto shared_reason = std::make_shared<const std::string>(reason);
  std::size_t count = 0;
  for (Session& session : table_.slots()) {
    if (session.id.value == 0 || session.port != port) continue;
    // A connection without a socket is never an agent, even before its first byte.
    const bool is_client = session.speaks == Speaks::store || session.socket < 0;
    if (!with_strangers && !is_client) continue;
    ++count;
    if (std::exchange(session.is_doomed, true)) continue;
    doomed_.push_back({session.id, shared_reason});
  }
  return count;
}

Store* StoreSessions::store_of(const Session& session) const {
  const FindStore& find = ports_[session.port];
  return find ? &find() : nullptr;
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

void StoreSessions::take_back(ConnectionId id) {
  if (Session* const session = table_.find(id)) detach(*session);
}

bool StoreSessions::is_heard(ConnectionId id) const {
  const Session* const session = table_.find(id);
  return session != nullptr && !session->is_doomed;
}

bool StoreSessions::is_paused(ConnectionId id) const {
  const Session* const session = table_.find(id);
  return session != nullptr && session->is_paused && !session->is_doomed;
}

int StoreSessions::socket_of(ConnectionId id) const {
  const Session* const session = table_.find(id);
  return session == nullptr ? -1 : session->socket;
}

std::vector<int> StoreSessions::sockets() const {
  std::vector<int> sockets;
  for (const Session& session : table_.slots()) {
    if (session.id.value != 0) sockets.push_back(session.socket);
  }
  return sockets;
}

Session* StoreSessions::heard(ConnectionId id) {
  Session* const session = table_.find(id);
  return session == nullptr || session->is_doomed ? nullptr : session;
}

void StoreSessions::close(ConnectionId id, const std::string& reason, bool is_ordinary) {
  if (Session* const session = table_.find(id)) close(*session, reason, is_ordinary);
}

bool StoreSessions::close_found(Session* session, const std::string& reason) {
  if (session != nullptr) close(*session, reason);
  return session != nullptr;
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
    if (long_ && long_->from == id) journal->lost();
    journal->closed(id);
  }
  // Part of the store was shown with it, so its end must come after all of that.
  const bool is_for_later = store != nullptr && logs_[port].is_shown;
  if (is_for_later) logs_[port].left.push_back(id);
  detach(session);
  spend(bounds::store_work_of_connection);
  if (store != nullptr && !is_for_later) leave_behind(port, id);
}

void StoreSessions::leave_behind(std::uint32_t port, ConnectionId id) {
  const FindStore& find = ports_[port];
  if (!find) return;
  Actions left_behind;
  find().forget(id, left_behind);
  perform(left_behind);
  notice_unfinished(port);
}

void StoreSessions::detach(Session& session) {
  if (session.backlog != nullptr) {
    accounting_->credit(session.account, session.backlog->bytes_charged);
    if (session.backlog->inbox.capacity() > bounds::store_freed_at_once_max) {
      // As a chunk it is freed in pieces.
      const ByteBuffer::Memory memory = session.backlog->inbox.release();
      Chunk(*accounting_, session.account, memory.data, memory.end, memory.capacity);
    }
  }
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

// --- turns -------------------------------------------------------------------------------------

void StoreSessions::begin_turn(TimePoint now) {
  now_ = now;
  work_left_ = static_cast<std::ptrdiff_t>(limits_.work_per_turn);
  turns_left_ = to_decide_.size();
  wakes_left_ = limits_.wakes_per_slice;
  accounting_->free_some(limits_.work_per_turn);
  recover_memory();
}

bool StoreSessions::has_more() const {
  return !to_send_.empty() || !to_decide_.empty() || !doomed_.empty() || is_busy() ||
         accounting_->has_remains() || (!timers_.empty() && timers_.top().when <= now_);
}

// Closing a connection costs the kernel more than serving one. Half of the work is left for others.
bool StoreSessions::close_next() {
  if (doomed_.empty() || work_left_ <= static_cast<std::ptrdiff_t>(limits_.work_per_turn / 2)) {
    return false;
  }
  const Doomed doomed = doomed_.front();
  close(doomed.id, *doomed.reason);
  doomed_.pop_front();  // not earlier: if there is no memory for it, it is tried again
  return true;
}

// Serves clients whose requests were more than one visit could decide, each in its turn. Half of
// the work is left for new input.
bool StoreSessions::decide_next() {
  in_hand_ = {};
  const auto half = static_cast<std::ptrdiff_t>(limits_.work_per_turn / 2);
  if (turns_left_ == 0 || to_decide_.empty() || work_left_ <= half || is_busy()) return false;
  --turns_left_;
  const ConnectionId id = to_decide_.front();
  to_decide_.pop_front();
  in_hand_ = id;
  Session* const session = heard(id);
  if (session == nullptr) return true;
  const bool is_listing = session->backlog != nullptr && session->backlog->listing != nullptr;
  if (logs_[session->port].is_held && !is_listing) {
    to_decide_.push_back(id);
    return true;
  }
  session->awaits_turn = false;
  if (go_on_listing(*session)) digest_inbox(*session, false);
  return true;
}

// A request may concern more clients than one turn can notify. Nothing else is decided until all of
// them are notified.
bool StoreSessions::go_on_with_stores() {
  for (; !unfinished_.empty(); unfinished_.pop_back()) {
    const FindStore& find = ports_[unfinished_.back()];
    if (!find || !find().has_unfinished()) continue;
    begin_deciding();
    find().go_on(bounds::store_told_in_turn, decided_);
    perform(decided_);
    return true;
  }
  return false;
}

void StoreSessions::notice_unfinished(std::uint32_t port) {
  const FindStore& find = ports_[port];
  if (!find || !find().has_unfinished()) return;
  if (std::ranges::find(unfinished_, port) == unfinished_.end()) unfinished_.push_back(port);
}

// --- time --------------------------------------------------------------------------------------

void StoreSessions::arm(TimerKind kind, ConnectionId id, Duration delay) {
  timers_.push({now_ + delay, kind, id});
}

std::optional<TimePoint> StoreSessions::next_deadline() const {
  if (timers_.empty()) return std::nullopt;
  return timers_.top().when;
}

bool StoreSessions::advance_next() {
  in_hand_ = {};
  if (work_left_ <= 0 || timers_.empty() || timers_.top().when > now_) return false;
  const Timer timer = timers_.top();
  timers_.pop();
  in_hand_ = timer.id;
  Session* const session = heard(timer.id);
  if (session == nullptr) return true;
  switch (timer.kind) {
    case TimerKind::ambiguity:
      if (session->is_ambiguous) digest_inbox(*session, true);
      break;
    case TimerKind::greeting:
      if (session->speaks == Speaks::unknown_yet) {
        close(*session, "it began to greet, and then said nothing");
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
  const Duration idle = now_ - session.backlog->last_taken;
  if (logs_[session.port].is_held) {
    session.is_timed = true;
    return arm(TimerKind::stall, session.id, limits_.reader_stall_max / 16);
  }
  if (idle < limits_.reader_stall_max) {
    session.is_timed = true;
    return arm(TimerKind::stall, session.id, limits_.reader_stall_max - idle);
  }
  close(session, fmt::format("took none of the {} bytes that wait for it in {} ms",
                             session.backlog->outbox.size(),
                             std::chrono::duration_cast<std::chrono::milliseconds>(idle).count()));
}

// --- memory ------------------------------------------------------------------------------------

// Closing needs memory as well, so the reserve is given up first. If even that is not enough, the
// connection is closed as soon as there is memory.
void StoreSessions::lack_memory(ConnectionId id) {
  last_memory_.reset();
  for (const PortLog& log : logs_) {
    if (log.journal != nullptr) log.journal->lost();
  }
  served_ = {};
  gathered_for_ = {};
  replies_ = {};
  last_reason_ = {};
  doom_unanswered();
  decided_ = {};
  performed_ = 0;
  memory_.reset();
  small_inbox_.clear();
  // Its request is half done and would never be answered.
  const ConnectionId interrupted = long_ ? long_->from : id;
  long_.reset();
  const ConnectionId in_hand = id == ConnectionId{} ? std::exchange(in_hand_, {}) : id;
  for (const ConnectionId each : {in_hand, interrupted}) {
    Session* session = heard(each);
    if (session == nullptr) continue;
    try {
      close(*session, lacks_memory);
    } catch (const std::bad_alloc&) {
      session = heard(each);
      if (session == nullptr) continue;
      session->is_doomed = true;
      has_unlisted_doomed_ = true;
    }
  }
}

// Replies that were decided and not delivered are lost: their clients would wait forever, so they
// are closed. What a store has begun is continued.
void StoreSessions::doom_unanswered() {
  const auto doom = [this](ConnectionId id) {
    Session* const session = heard(id);
    if (session == nullptr) return;
    session->is_doomed = true;
    has_unlisted_doomed_ = true;
  };
  for (std::size_t at = performed_; at < decided_.size(); ++at) {
    std::visit(Overloaded{[&](const Drop& drop) { doom(drop.connection); },
                          [&](const auto& said) { doom(said.to); }},
               decided_[at]);
  }
  for (std::uint32_t port = 0; port < ports_.size(); ++port) notice_unfinished(port);
}

void StoreSessions::recover_memory() {
  if (last_memory_ != nullptr) return;
  last_memory_.reset(new (std::nothrow) char[bounds::store_last_memory_bytes]);
  if (last_memory_ == nullptr || !has_unlisted_doomed_) return;
  try {
    const auto reason = std::make_shared<const std::string>(lacks_memory);
    for (Session& session : table_.slots()) {
      if (session.id.value == 0 || !session.is_doomed) continue;
      if (std::ranges::find(doomed_, session.id, &Doomed::id) != doomed_.end()) continue;
      doomed_.push_back({session.id, reason});
    }
    has_unlisted_doomed_ = false;
  } catch (const std::bad_alloc&) {
    lack_memory({});  // the next turn tries again
  }
}

// How a process arrives at the sessions and answers of another one, from the log of that one
// (store_log.h): the same decoder reads the same bytes and the same store carries them out, in the
// same order. Only the decisions are not made here. No client is rejected, paused or closed unless
// the other process has done so, and replies are kept for clients that read them later.

namespace {

// A conversation as a number: the dialect, whether a complete request was decoded, and whether the
// client was admitted.
constexpr std::uint64_t has_spoken_bit = 16;
constexpr std::uint64_t is_let_in_bit = 32;

std::uint64_t number_of(const Session& session) {
  return static_cast<std::uint64_t>(session.conversation.dialect) |
         (session.conversation.has_spoken ? has_spoken_bit : 0) |
         (session.speaks == Speaks::store ? is_let_in_bit : 0);
}

}  // namespace

// --- the process that decides -------------------------------------------------------------------

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
    // What they leave behind would be passed on to clients that were already shown.
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

// --- the process that follows -------------------------------------------------------------------

void StoreSessions::restore(ConnectionId id, std::uint64_t conversation, std::string_view inbox,
                            std::string_view outbox) {
  Session* const session = heard(id);
  if (session == nullptr) return;
  session->conversation.dialect = static_cast<c10d::Dialect>(conversation & (has_spoken_bit - 1));
  session->conversation.has_spoken = (conversation & has_spoken_bit) != 0;
  if ((conversation & is_let_in_bit) != 0) {
    session->speaks = Speaks::store;
    if (Store* const store = store_of(*session)) store->keep_books_in(accounting_);
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
  store->keep_books_in(accounting_);
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
  store->keep_books_in(accounting_);
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

// Invariants of sessions between two turns. Simulated and explored runs check them after each turn.

std::optional<std::string> StoreSessions::check() const {
  if (next_action_ < actions_.size()) return std::nullopt;  // half done
  if (gathered_for_.value != 0 || !replies_.empty()) return "replies without a recipient";
  if (served_.value != 0 || !last_reason_.empty()) return "a visit without an end";
  for (const Session& session : table_.slots()) {
    if (session.id.value == 0 || session.is_doomed) continue;
    if (auto broken = check(session)) return broken;
  }
  return std::nullopt;
}

// No client is forgotten: a client with something to be decided or sent is queued, or waits for its
// socket.
std::optional<std::string> StoreSessions::check(const Session& session) const {
  const auto of = [&session](const char* what) {
    return fmt::format("connection {} {}", session.id.value, what);
  };
  const bool has_outbox = session.backlog != nullptr && !session.backlog->outbox.empty();
  if (session.awaits_writable && !has_outbox) return of("waits to be sent nothing");
  if (has_outbox && !session.awaits_writable && !session.is_queued_to_send) {
    return of("has replies that are never sent");
  }
  if (session.is_paused && !session.awaits_writable) return of("is paused for ever");
  if (session.is_paused && !session.is_timed) return of("may stall for ever");
  if (session.awaits_turn && std::ranges::find(to_decide_, session.id) == to_decide_.end()) {
    return of("waits for a turn that does not come");
  }
  if (session.backlog == nullptr) return std::nullopt;
  const Backlog& backlog = *session.backlog;
  const bool is_left = backlog.inbox.size() >= std::max<std::size_t>(backlog.inbox_needed, 1);
  const bool is_held =
      session.awaits_turn || session.is_paused || (long_ && long_->from == session.id);
  if (session.speaks == Speaks::store && is_left && !is_held && !is_replayed(session)) {
    return of("has requests that are never decided");
  }
  return std::nullopt;
}

}  // namespace cpprun
