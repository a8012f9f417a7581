// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The conversations of all store clients of a process, as one state machine without sockets. The
// bytes of clients go in; what to write, watch and close comes out. It bounds what one turn of the
// loop may do. Work is measured in bytes copied, and what a turn has no time for comes first in a
// later one.
//
//   bytes ─► room(), received() ─► requests ─► Store ─► replies ─► actions: Write, Watch, Close …
//
// session_requests.cpp turns bytes into requests that are decided and the store's decisions into
// bytes, and handles what takes more than one turn. store_sessions.cpp has the rest, and how
// another process arrives at the same state (store_log.h).
//
// After each call the owner of the sockets performs all actions (next_action() until it returns
// null). Until then it may only make calls that answer one of them. ConnectionSet is that owner.

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/bounds.h"
#include "proto/clock.h"
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
  std::size_t close_clients(std::uint32_t port, const std::string& reason);

  // --- replication: the process that decides ---
  // From now on the journal receives what the clients of that port send and what is decided; null:
  // none does. The journal must outlive the port or be removed.
  void keep_journal(std::uint32_t port, StoreJournal* journal) { logs_.at(port).journal = journal; }
  // Until let_go(), no request of that port's clients is decided. So the clients can be shown in
  // several turns, and so can their store, which does not change after show(). If clients are
  // closed meanwhile, what they leave behind is passed on by let_go(). Must not be called while
  // other work is in progress.
  void hold(std::uint32_t port);
  void let_go(std::uint32_t port);
  bool is_held(ConnectionId id) const {
    const Session* const session = table_.find(id);
    return session != nullptr && logs_[session->port].is_held;
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
  void begin_replay(std::uint32_t port) { logs_.at(port).is_replayed = true; }
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
  // Undoes open(), as if the connection had never existed.
  void take_back(ConnectionId id);
  bool is_heard(ConnectionId id) const;
  // Nothing is read from it until it takes replies.
  bool is_paused(ConnectionId id) const;
  int socket_of(ConnectionId id) const;
  std::vector<int> sockets() const;
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
  void close(ConnectionId id, const std::string& reason, bool is_ordinary = false);
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
  bool send_next();
  // The same without the bounds of a turn: for what another process has decided.
  bool send_any();
  bool advance_next();
  // Whether another turn is wanted at once.
  bool has_more() const;
  bool has_doomed() const { return !doomed_.empty(); }
  bool has_undecided() const { return !to_decide_.empty(); }
  std::optional<TimePoint> next_deadline() const;
  std::ptrdiff_t work_left() const { return work_left_; }
  void spend(std::size_t work) { work_left_ -= static_cast<std::ptrdiff_t>(work); }

  // There was no memory for what that client wanted. Without an id, that is the client whose turn
  // it was. Ends it, and the client whose long request was interrupted, but no other.
  void lack_memory(ConnectionId id);

  // The next action to perform; null if there is none.
  std::optional<SessionAction> next_action();

  std::size_t size() const { return table_.size(); }
  // The violated invariant, if any. Only checked while no action is left to perform.
  std::optional<std::string> check() const;

 private:
  enum class TimerKind { ambiguity, stall, greeting };
  struct Timer {
    TimePoint when;
    TimerKind kind = TimerKind::ambiguity;
    ConnectionId id;
    friend auto operator<=>(const Timer& left, const Timer& right) {
      return left.when <=> right.when;
    }
  };
  // A request with very many keys that is being carried out.
  struct LongRequest {
    ConnectionId from;
    c10d::Request request;  // its keys are in decoder_, which is not used meanwhile
    Origin origin;
    std::size_t done = 0;  // number of its keys that are done
    bool has_all = true;   // the answer to CHECK
    SharedReply reply;     // the answer to MULTI_GET
  };
  struct Doomed {
    ConnectionId id;
    std::shared_ptr<const std::string> reason;
  };

  struct PortLog {
    StoreJournal* journal = nullptr;
    bool is_replayed = false;
    bool is_held = false;
    bool is_shown = false;
    std::vector<ConnectionId> left = {};  // clients that left since show(), in that order
  };

  // --- connections (store_sessions.cpp) ---
  StoreJournal* journal_of(const Session& session) const { return logs_[session.port].journal; }
  bool is_replayed(const Session& session) const { return logs_[session.port].is_replayed; }
  Store* store_of(const Session& session) const;
  // Null if that connection is gone or about to be closed.
  Session* heard(ConnectionId id);
  bool close_found(Session* session, const std::string& reason);
  void leave_behind(std::uint32_t port, ConnectionId id);
  void close(Session& session, const std::string& reason, bool is_ordinary = false);
  void detach(Session& session);
  std::size_t doom(std::uint32_t port, const std::string& reason, bool with_strangers);
  void arm(TimerKind kind, ConnectionId id, Duration delay);
  void look_at_reader(Session& session);
  void watch(const Session& session);
  void doom_unanswered();
  void recover_memory();
  void notice_unfinished(std::uint32_t port);
  std::optional<std::string> check(const Session& session) const;

  // --- requests (session_requests.cpp) ---
  // The result of decoding some bytes.
  struct Digested {
    bool is_gone = false;      // the client was closed, or will be when its replies are written
    std::size_t consumed = 0;  // bytes whose requests were decided
    std::size_t needed = 0;    // bytes of the rest needed before it is worth decoding again
  };
  void greet(Session& session, std::string_view received);
  void hand_over(Session& session, Protocol speaks);
  void refuse_protocol(Session& session, std::string_view bytes);
  // Decides every complete request in `bytes`, and has the replies written in one go.
  Digested digest(Session& session, std::string_view bytes, c10d::Progress& progress,
                  bool grace_over);
  Digested decide(Session& session, std::string_view bytes, c10d::Progress& progress,
                  bool grace_over);
  // The same with what waits in the inbox.
  void digest_inbox(Session& session, bool grace_over);
  ByteBuffer::Memory take_inbox(Session& session);
  void put_back(Session& session, const ByteBuffer::Memory& place, std::size_t size,
                std::size_t consumed);
  void keep(Session& session, std::string_view rest, const Digested& done,
            const c10d::Progress& progress);
  void carry_out(Session& session, Store& store, const c10d::Complete& complete);
  void queue_turn(Session& session);
  void queue_unfinished(Session& session);
  bool go_on_listing(Session& session);
  void end(ConnectionId id, const std::string& reason);

  void tell_journal(const Session& session, const c10d::Complete& complete);

  // --- decisions of another process ---
  bool replay(Session& session, std::string_view bytes, c10d::Progress& progress,
              std::size_t count);
  void carry_on(Store& store);

  // --- long requests (session_requests.cpp) ---
  bool is_long(const c10d::Complete& complete) const;
  void begin_long(Session& session, const c10d::Complete& complete);
  void end_long();

  // --- replies (session_requests.cpp) ---
  void begin_deciding();
  void perform(const Actions& actions);
  void deliver(const Answer& answer);
  void deliver(const SharedReply& shared_reply);
  void refuse_huge_reply(ConnectionId to);
  Outbox& outbox_of(Session& session);
  void queue_to_send(Session& session);
  void flush(Session& session, const std::string& last_reason);
  void take_gathered(Session& session, std::size_t count);
  void take_from_outbox(Session& session, std::size_t count);
  void look_at_own(Session& session);
  void look_at_others(Session& session);
  void resume(Session& session);
  static Backlog& backlog_of(Session& session);
  void drop_empty_backlog(Session& session);
  // Books what waits in either direction. Returns false if that was too much and the connection was
  // closed.
  bool settle(Session& session);

  const SessionLimits limits_;
  std::shared_ptr<MemoryAccounting>
      accounting_;                     // shared with the stores; other holders may outlive this
  std::vector<FindStore> ports_;       // empty: closed
  std::vector<TakenProtocols> taken_;  // by port
  std::vector<PortLog> logs_;          // by port
  SessionTable table_;
  UnidentifiedConnections unidentified_connections_;
  std::vector<SessionAction> actions_;  // those before next_action_ were performed
  std::size_t next_action_ = 0;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::deque<ConnectionId> to_send_;    // connections with output that other clients caused
  std::deque<ConnectionId> to_decide_;  // connections with requests that one visit did not decide
  std::deque<Doomed> doomed_;           // connections to be closed
  std::vector<std::uint32_t> unfinished_;  // ports whose store has work left
  TimePoint now_{};
  std::ptrdiff_t work_left_ = 0;  // of this turn
  std::size_t turns_left_ = 0;    // for connections that were queued when this turn began
  std::size_t wakes_left_ = 0;    // of wakes_per_slice
  // Kept for closing clients when there is no other memory; null: it is in use.
  std::unique_ptr<char[]> last_memory_;
  bool has_unlisted_doomed_ = false;  // there was not even memory to add them to doomed_

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
  ByteBuffer small_inbox_;           // holds the requests that are being decided,
  std::shared_ptr<Chunk> memory_;    // or this does, if they are large
  std::optional<LongRequest> long_;  // no other client is served while there is one
};

}  // namespace cpprun
