// SPDX-License-Identifier: BSD-3-Clause
// Ports, lives, turns and time. How requests become replies is in the session_*.cpp files.
#include "rendezvous/store/store_sessions.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "proto/machine.h"

namespace cpprun {
namespace {

constexpr const char* lacks_memory = "there is no memory for what it wants";

}  // namespace

StoreSessions::StoreSessions(SessionLimits limits, std::shared_ptr<Ledger> ledger)
    : limits_(limits), ledger_(std::move(ledger)) {
  ledger_->tend(true);
}

StoreSessions::~StoreSessions() {
  // Stores that outlive this free what is theirs themselves.
  ledger_->tend(false);
}

// --- ports -------------------------------------------------------------------------------------

void StoreSessions::open_port(std::uint32_t port, FindStore store, TakenProtocols taken) {
  if (ports_.size() <= port) ports_.resize(port + 1);
  taken_.resize(ports_.size());
  taken_[port] = taken;
  logs_.resize(ports_.size());
  logs_[port] = {};
  unfinished_.reserve(ports_.size());  // so that noticing one takes no memory
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
    // Whoever has no socket is nobody's agent, be it that it has not said a word yet.
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

// --- lives -------------------------------------------------------------------------------------

ConnectionId StoreSessions::open(int socket, const PeerAddress& peer, std::uint32_t port,
                                 c10d::Dialect dialect) {
  Session& session = table_.open(socket, peer, port);
  session.account = ledger_->open_connection(peer);
  session.conversation.dialect = dialect;
  // To close one that has no socket makes room for nobody.
  if (socket >= 0) strangers_.add(session.id, table_);
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

// Nobody hears from that connection again. Others may: what it leaves behind is passed on.
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
    // Half of what it has asked was done.
    if (long_ && long_->from == id) journal->lost();
    journal->closed(id);
  }
  // Part of the store was shown with it: whoever reads that hears of its end behind all of it.
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
    ledger_->credit(session.account, session.backlog->bytes_charged);
    if (session.backlog->inbox.capacity() > bounds::store_freed_at_once_max) {
      // As a chunk it is freed in pieces.
      const ByteBuffer::Memory memory = session.backlog->inbox.release();
      Chunk(*ledger_, session.account, memory.data, memory.end, memory.capacity);
    }
  }
  ledger_->close_connection(session.account);
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
  ledger_->free_some(limits_.work_per_turn);
  recover_memory();
}

bool StoreSessions::has_more() const {
  return !to_send_.empty() || !to_decide_.empty() || !doomed_.empty() || is_busy() ||
         ledger_->has_remains() || (!timers_.empty() && timers_.top().when <= now_);
}

// To close one takes the kernel longer than to serve one. Half of the work is left for the others.
bool StoreSessions::close_next() {
  if (doomed_.empty() || work_left_ <= static_cast<std::ptrdiff_t>(limits_.work_per_turn / 2)) {
    return false;
  }
  const Doomed doomed = doomed_.front();
  close(doomed.id, *doomed.reason);
  doomed_.pop_front();  // not before: where there is no memory for it, it is tried again
  return true;
}

// Those whose requests were more than one visit could decide, each in its turn. Half of the work is
// left for what has come meanwhile.
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

// Whom a request concerns may be more than one turn can tell. Until all of them are told nothing
// else is decided.
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

// Drops a paused client that took nothing for too long.
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

// To close it takes memory, too: what is kept for that is given up first. Where even that is not
// enough it is closed as soon as there is some.
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
  // Its request is half done, and would never be answered.
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

// What was decided and not said is lost: its clients would wait for ever. What a store has begun is
// gone on with.
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

}  // namespace cpprun
