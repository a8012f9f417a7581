// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The conversations of all store clients of a process, as one state machine without sockets. The
// bytes of clients go in; what to write, watch and close comes out. It bounds what one turn of the
// loop may do. Work is measured in bytes copied, and what a turn has no time for comes first in a
// later one.
//
//   bytes ─► room(), received() ─► requests ─► Store ─► replies ─► actions: Write, Watch, Close …
//
// All complete requests of a client are decided before anything is written, within what one visit
// may cost. Their replies leave in one write. A large value is sent from where it is stored, a
// slice in each turn. Another process arrives at the same state from a log of the decisions
// (store_log.h).
//
// After each call the owner of the sockets performs all actions (next_action() until it returns
// null). Until then it may only make calls that answer one of them. ConnectionSet is that owner.

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "rendezvous/client/bounds.h"
#include "rendezvous/store/bounds.h"
#include "rendezvous/store/session.h"
#include "rendezvous/store/store.h"

namespace cpprun {

// Bounds of one client and of one turn. The defaults are for production; tests use smaller ones.
struct SessionLimits {
  std::size_t outbox_bytes_max = bounds::store_outbox_bytes_max;
  Duration reader_stall_max = bounds::store_reader_stall_max;
  std::size_t wakes_per_slice = bounds::store_wakes_per_slice;
  std::size_t work_per_turn = bounds::store_work_per_turn;
  std::size_t work_per_visit = bounds::store_work_per_visit;
};

class StoreSessions {
 public:
  // Finds the store of a port. Called each time, because a job's store comes and goes.
  using FindStore = std::function<Store&()>;

  StoreSessions(SessionLimits limits, std::shared_ptr<MemoryAccounting> accounting);
  ~StoreSessions();
  StoreSessions(const StoreSessions&) = delete;
  StoreSessions& operator=(const StoreSessions&) = delete;

  // --- ports ---
  // `taken` names further protocols. Such a connection is handed over if the port takes its
  // protocol, and closed if not.
  void open_port(std::uint32_t port, FindStore store, TakenProtocols taken = {});
  // Closes everything that came through the port when there is time. From now on nothing is read
  // from these connections and the store of the port is not used. Returns their number.
  std::size_t close_port(std::uint32_t port, const std::string& reason);
  // The same for the store's clients only. The port stays, with the connections that have not sent
  // anything yet: one may be an agent.
  std::size_t close_clients(std::uint32_t port, const std::string& reason) {
    return doomed_.add_all_of(port, table_, reason, /*with_unidentified=*/false);
  }

  // --- replication: the process that decides ---
  // From now on the journal receives what the clients of that port send and what is decided; null:
  // none does. The journal must outlive the port or be removed.
  void keep_journal(std::uint32_t port, StoreJournal* journal) {
    ports_.at(port).journal = journal;
  }
  // Until let_go(), no request of that port's clients is decided. So the clients can be shown in
  // several turns, and so can their store, which does not change after show(). If clients are
  // closed meanwhile, what they leave behind is passed on by let_go(). Must not be called while
  // other work is in progress.
  void hold(std::uint32_t port) { ports_.at(port).is_held = true; }
  void let_go(std::uint32_t port);
  bool is_held(ConnectionId id) const {
    const Session* const session = table_.find(id);
    return session != nullptr && ports_[session->port].is_held;
  }
  // Whether an image can be taken. An image cannot contain a list of keys that is half answered, or
  // a connection that is about to be closed.
  bool can_be_shown(std::uint32_t port) const;
  // The state of one client between two turns.
  struct Shown {
    ConnectionId id;
    int socket = -1;
    PeerAddress peer;
    std::uint64_t conversation = 0;  // opaque; for restore()
    std::string_view inbox;
    std::string outbox;
  };
  void show(std::uint32_t port, const std::function<void(const Shown&)>& viewer);

  // --- replication: the process that follows ---
  // From now on until end_replay(), only what the other process has decided is applied to that
  // port's clients, however much memory that takes.
  void begin_replay(std::uint32_t port) { ports_.at(port).is_replayed = true; }
  bool is_replayed(ConnectionId id) const {
    const Session* const session = table_.find(id);
    return session != nullptr && is_replayed(*session);
  }
  void end_replay(std::uint32_t port);
  // Books an empty store of that port in the accounting of these sessions.
  void adopt(Store& store) const { store.keep_books_in(accounting_); }
  void restore(ConnectionId id, std::uint64_t conversation, std::string_view inbox,
               std::string_view outbox);
  void replay_read(ConnectionId id, std::string_view bytes);
  // Carries out the next `count` bytes as requests. Returns false if they are not, or if there are
  // fewer.
  bool replay_decided(ConnectionId id, std::size_t count);
  void replay_abandoned(ConnectionId id);
  bool replay_listed(ConnectionId id, std::size_t count, std::string_view reply);

  // --- one connection ---
  ConnectionId open(int socket, const PeerAddress& peer, std::uint32_t port, c10d::Dialect dialect);
  // To be called before its first bytes: no limits apply to requests of the program itself.
  void exempt(ConnectionId id) {
    Session* const session = table_.find(id);
    if (session == nullptr) return;
    accounting_->close_connection(std::exchange(session->account, AccountId{}));
  }
  // Undoes open(), as if the connection had never existed.
  void take_back(ConnectionId id) {
    if (Session* const session = table_.find(id)) detach(*session);
  }
  bool is_heard(ConnectionId id) const {
    const Session* const session = table_.find(id);
    return session != nullptr && !session->is_doomed;
  }
  // It was admitted as a client of its port's store.
  bool is_client(ConnectionId id) const {
    const Session* const session = table_.find(id);
    return session != nullptr && session->speaks == Speaks::store;
  }
  // Nothing is read from it until it takes replies.
  bool is_paused(ConnectionId id) const {
    const Session* const session = table_.find(id);
    return session != nullptr && session->is_paused && !session->is_doomed;
  }
  // It has replies for which its socket had no room, or which were too many for one turn.
  bool awaits_room(ConnectionId id) const {
    const Session* const session = table_.find(id);
    return session != nullptr && session->awaits_writable;
  }
  int socket_of(ConnectionId id) const {
    const Session* const session = table_.find(id);
    return session == nullptr ? -1 : session->socket;
  }
  PeerAddress address_of(ConnectionId id) const {
    const Session* const session = table_.find(id);
    return session == nullptr ? PeerAddress{} : session->peer;
  }
  std::vector<int> sockets() const { return table_.sockets(); }
  // Where its next bytes go. Empty: nothing is read from it now, or it was closed for lack of room.
  std::span<char> room(ConnectionId id);
  // `count` bytes were put there.
  void received(ConnectionId id, std::size_t count);
  // The answer to Admit: it may use the store.
  void admit(ConnectionId id);
  // Its socket has room again.
  void writable(ConnectionId id);
  // What to write to it now, in place; as many pieces as fit `room`.
  std::span<const std::string_view> pieces(ConnectionId id, std::span<std::string_view> room) const;
  // The answer to Write: the socket took that many of those bytes, perhaps none.
  void sent(const session::Write& write, std::size_t count);
  // Ends the connection, for a reason that the owner knows.
  void close(ConnectionId id, const std::string& reason, bool is_ordinary = false) {
    if (Session* const session = table_.find(id)) close(*session, reason, is_ordinary);
  }
  // The same for the longest silent connection, except `newest`; false if none is silent.
  bool close_silent(const std::string& reason, ConnectionId newest = {}) {
    return close_found(unidentified_connections_.longest_silent(table_, newest), reason);
  }
  // The same among those that count for the address of `peer`.
  bool close_silent_of(const PeerAddress& peer, const std::string& reason) {
    return close_found(unidentified_connections_.longest_silent_of(table_, peer.source()), reason);
  }

  // --- a turn ---
  void begin_turn(TimePoint now);
  // Some work must be finished before any client is served. go_on_with_stores() and
  // go_on_with_long() each do one part of it, and return true if that was this turn.
  bool is_busy() const { return long_.has_value() || !unfinished_.empty(); }
  bool go_on_with_stores();
  bool go_on_with_long();
  // Each handles one item that waits for its turn. Returns false if there is none, or if this
  // turn's work is used up. The actions are performed between two calls.
  bool close_next();
  bool decide_next();
  bool send_next() { return send(turns_.next_to_send()); }
  // The same without the bounds of a turn: for what another process has decided.
  bool send_any() { return send(turns_.any_to_send()); }
  bool advance_next();
  // Whether another turn is wanted at once.
  bool has_more() const;
  bool has_doomed() const { return !doomed_.empty(); }
  bool has_undecided() const { return turns_.has_undecided(); }
  std::optional<TimePoint> next_deadline() const { return turns_.next_deadline(); }
  std::ptrdiff_t work_left() const { return turns_.work_left(); }
  void spend(std::size_t work) { turns_.spend(work); }

  // There was no memory for what that client wanted. Without an id, that is the client whose turn
  // it was. Ends it, and the client whose long request was interrupted, but no other.
  void lack_memory(ConnectionId id);

  // The next action to perform; null if there is none.
  std::optional<SessionAction> next_action();

  std::size_t size() const { return table_.size(); }
  // The violated invariant, if any. Only checked while no action is left to perform.
  std::optional<std::string> check() const;

 private:
  using TimerKind = TurnQueue::TimerKind;
  struct Port {
    FindStore store;  // empty: closed
    TakenProtocols taken = {};
    StoreJournal* journal = nullptr;
    bool is_replayed = false;
    bool is_held = false;
    bool is_shown = false;
    std::vector<ConnectionId> left = {};  // clients that left since show(), in that order
  };
  // The requests of a client that are decided at once, and the result.
  struct Visit {
    std::string_view bytes = {};
    const TakenInbox* inbox = nullptr;  // where they are; null: in read_
    c10d::Progress progress = {};       // of the next request
    bool grace_over = false;
    bool is_gone = false;      // the client was closed, or will be when its replies are written
    std::size_t consumed = 0;  // bytes whose requests were decided
    std::size_t needed = 0;    // bytes of the rest needed before it is worth decoding again
    std::shared_ptr<Chunk> memory() const { return inbox == nullptr ? nullptr : inbox->chunk(); }
  };

  // --- connections ---
  StoreJournal* journal_of(const Session& session) const { return ports_[session.port].journal; }
  bool is_replayed(const Session& session) const { return ports_[session.port].is_replayed; }
  Store* store_of(const Session& session) const {
    const FindStore& find = ports_[session.port].store;
    return find ? &find() : nullptr;
  }
  // Null if that connection is gone or about to be closed.
  Session* heard(ConnectionId id) {
    Session* const session = table_.find(id);
    return session == nullptr || session->is_doomed ? nullptr : session;
  }
  bool close_found(Session* session, const std::string& reason) {
    if (session != nullptr) close(*session, reason);
    return session != nullptr;
  }
  void leave_behind(std::uint32_t port, ConnectionId id);
  void close(Session& session, const std::string& reason, bool is_ordinary = false);
  void detach(Session& session);
  void look_at_reader(Session& session);
  void watch(const Session& session);
  void doom_unanswered();
  void notice_unfinished(std::uint32_t port);
  std::optional<std::string> check(const Session& session) const;

  // --- requests ---
  void greet(Session& session, std::string_view received);
  void hand_over(Session& session, Protocol speaks);
  // Decides every complete request of the visit, and has the replies written in one go.
  void digest(Session& session, Visit& visit);
  void decide(Session& session, Visit& visit);
  // The same with what waits in the inbox.
  void digest_inbox(Session& session, bool grace_over);
  void keep(Session& session, std::string_view rest, const Visit& visit);
  void carry_out(Session& session, Store& store, const c10d::Complete& complete,
                 const Visit& visit);
  void queue_unfinished(Session& session);
  bool go_on_listing(Session& session);
  void begin_long(Session& session, const c10d::Complete& complete, const Origin& origin);
  void end_long();
  void end(ConnectionId id, const std::string& reason);
  void tell_journal(const Session& session, const c10d::Complete& complete);

  // --- decisions of another process ---
  Store* store_to_replay(Session* session, std::size_t count);
  bool replay(Session& session, Store& store, const TakenInbox& inbox, std::size_t count);
  void carry_on(Store& store);

  // --- replies ---
  void begin_deciding() {
    if (!decided_.empty()) decided_.clear();
    performed_ = 0;
  }
  void perform(const Actions& actions);
  void deliver(const Answer& answer);
  void deliver(const SharedReply& shared_reply);
  Outbox& outbox_of(Session& session);
  bool send(std::optional<ConnectionId> to);
  void flush(Session& session, const std::string& last_reason);
  void take_gathered(Session& session, std::size_t count);
  void take_from_outbox(Session& session, std::size_t count);
  void look_at_own(Session& session);
  void look_at_others(Session& session);
  void resume(Session& session);
  // Books what waits in either direction. Returns false if that was too much and the connection was
  // closed.
  bool charge_backlog_or_close(Session& session);

  const SessionLimits limits_;
  std::shared_ptr<MemoryAccounting>
      accounting_;  // shared with the stores; other holders may outlive this
  std::vector<Port> ports_;
  SessionTable table_;
  UnidentifiedConnections unidentified_connections_;
  std::vector<SessionAction> actions_;  // those before next_action_ were performed
  std::size_t next_action_ = 0;
  TurnQueue turns_;
  DoomedConnections doomed_;
  std::vector<std::uint32_t> unfinished_;  // ports whose store has work left

  // Scratch space of one request at a time, kept to save allocations.
  c10d::Decoder decoder_;
  Actions decided_;
  std::size_t performed_ = 0;    // number of those that were performed
  std::string replies_;          // replies to the requests of `served_`, then of `gathered_for_`
  std::string encoded_;          // one answer for another client
  ConnectionId in_hand_{};       // the connection whose turn it is
  ConnectionId served_{};        // the connection whose bytes are being decoded
  ConnectionId gathered_for_{};  // the connection for which replies_ are to be written
  std::string last_reason_;      // not empty: why `served_` is to be closed
  // What was just received. It is not initialized, because that would use every page of it before
  // anything arrives.
  std::unique_ptr<char[]> read_ = std::make_unique_for_overwrite<char[]>(bounds::store_read_bytes);
  std::optional<LongRequest> long_;  // no other client is served while there is one
};

}  // namespace cpprun
