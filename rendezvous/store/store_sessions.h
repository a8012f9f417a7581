// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The conversations of all store clients of a process, as one machine without a socket. What came
// of a client goes in, bytes and all; what is to be written, watched and closed comes out. It says
// what one turn of the loop may do: work is counted in bytes that are copied, and what a turn has
// no time for is the first thing of a later one.
//
//   bytes ─► room(), received() ─► requests ─► Store ─► replies ─► actions: Write, Watch, Close …
//
// session_requests.cpp has how bytes become requests that are decided, how what the store decides
// becomes bytes, and what takes more than one turn. store_sessions.cpp has the rest, and how
// another process comes to the same (store_log.h).
//
// After each call the owner of the sockets performs the actions (next_action() until it is null),
// before it calls anything else that is not an answer to one of them. ConnectionSet is that owner.

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

// Bounds of one client and of one turn; the defaults are the house's, tests choose smaller ones.
struct SessionLimits {
  std::size_t outbox_bytes_max = bounds::store_outbox_bytes_max;
  Duration reader_stall_max = bounds::store_reader_stall_max;
  std::size_t wakes_per_slice = bounds::store_wakes_per_slice;
  std::size_t work_per_turn = bounds::store_work_per_turn;
  std::size_t work_per_visit = bounds::store_work_per_visit;
};

class StoreSessions {
 public:
  // Finds the store of a port; asked each time, because a job's store comes and goes.
  using FindStore = std::function<Store&()>;

  StoreSessions(SessionLimits limits, std::shared_ptr<Ledger> ledger);
  ~StoreSessions();
  StoreSessions(const StoreSessions&) = delete;
  StoreSessions& operator=(const StoreSessions&) = delete;

  // --- ports ---
  // Whoever speaks HTTP is handed over where the port takes it, and closed where not.
  void open_port(std::uint32_t port, FindStore store, TakenProtocols taken = {});
  // All that came through it are closed when there is time, and nobody of them is heard from now
  // on; its store is not asked any more. How many they are.
  std::size_t close_port(std::uint32_t port, const std::string& reason);
  // The same for the store's clients alone, and the port stays: with whoever has a socket and has
  // not spoken yet, and may be an agent.
  std::size_t close_clients(std::uint32_t port, const std::string& reason);

  // --- another process goes on where this one is lost ---
  // What the clients of that port say and what is decided of it is told to that journal from now
  // on; null: to nobody. It outlives the port, or is taken away.
  void keep_journal(std::uint32_t port, StoreJournal* journal) { logs_.at(port).journal = journal; }
  // None of its clients' requests is decided until it is let go: what there is of them can be
  // shown in several turns, and so can its store: from show() on it stays as it is, and what those
  // leave behind who close meanwhile is passed on when it is let go. Not while something else is
  // under way.
  void hold(std::uint32_t port);
  void let_go(std::uint32_t port);
  bool is_held(ConnectionId id) const {
    const Session* const session = table_.find(id);
    return session != nullptr && logs_[session->port].is_held;
  }
  // That a list of keys was asked for and is half told is in no image, nor is whoever is to be
  // closed: false where there is one.
  bool can_be_shown(std::uint32_t port) const;
  // Each client of it as it is between two turns.
  struct Shown {
    ConnectionId id;
    int socket = -1;
    PeerAddress peer;
    std::uint64_t conversation = 0;  // for restore(), and nobody else
    std::string_view inbox;
    std::string outbox;
  };
  void show(std::uint32_t port, const std::function<void(const Shown&)>& viewer);

  // The other side. From now on nothing is decided here for that port's clients, whatever they may
  // make us hold, but what the other process has decided; until end_replay().
  void begin_replay(std::uint32_t port) { logs_.at(port).is_replayed = true; }
  bool is_replayed(ConnectionId id) const {
    const Session* const session = table_.find(id);
    return session != nullptr && is_replayed(*session);
  }
  void end_replay(std::uint32_t port);
  // An empty store of that port's, in the books of these sessions.
  void adopt(Store& store) const { store.keep_books_in(ledger_); }
  void restore(ConnectionId id, std::uint64_t conversation, std::string_view inbox,
               std::string_view outbox);
  void replay_read(ConnectionId id, std::string_view bytes);
  // The next so many bytes of it are requests. False: they are not, or there are not so many.
  bool replay_decided(ConnectionId id, std::size_t count);
  void replay_abandoned(ConnectionId id);
  bool replay_listed(ConnectionId id, std::size_t count, std::string_view reply);

  // --- one connection ---
  ConnectionId open(int socket, const PeerAddress& peer, std::uint32_t port, c10d::Dialect dialect);
  // The same as if it had never been there.
  void take_back(ConnectionId id);
  bool is_heard(ConnectionId id) const;
  // Nothing more of it is read until it takes replies.
  bool is_paused(ConnectionId id) const;
  int socket_of(ConnectionId id) const;
  std::vector<int> sockets() const;
  // Where its next bytes go; empty: nothing is read of it now, or it was closed for want of room.
  std::span<char> room(ConnectionId id);
  // So many bytes of it were put there.
  void received(ConnectionId id, std::size_t count);
  // The answer to Admit: it may use the store.
  void admit(ConnectionId id);
  // Its socket takes bytes again.
  void writable(ConnectionId id);
  // What is to be written to it now, where it lies: at most so many pieces.
  std::span<const std::string_view> pieces(ConnectionId id, std::span<std::string_view> room) const;
  // The answer to Write: the socket took so many bytes of that, perhaps none.
  void sent(const session::Write& write, std::size_t count);
  // It is over, for a reason that the owner knows.
  void close(ConnectionId id, const std::string& reason, bool is_ordinary = false);
  // The same for who has been silent for longest, `newest` excepted; false where nobody is silent.
  bool close_silent(const std::string& reason, ConnectionId newest = {}) {
    return close_found(strangers_.longest_silent(table_, newest), reason);
  }
  // The same of those that count for the address of `peer`.
  bool close_silent_of(const PeerAddress& peer, const std::string& reason) {
    return close_found(strangers_.longest_silent_of(table_, peer.source()), reason);
  }

  // --- a turn ---
  void begin_turn(TimePoint now);
  // Something is under way that must be over before anybody else asks anything. One part of it is
  // done by go_on_with_stores() or go_on_with_long(); true: that was this turn.
  bool is_busy() const { return long_.has_value() || !unfinished_.empty(); }
  bool go_on_with_stores();
  bool go_on_with_long();
  // Each does one thing that waits for its turn; false: nothing waits, or this turn's work is used
  // up. The actions are performed between two calls.
  bool close_next();
  bool decide_next();
  bool send_next();
  // The same, whatever a turn may do: for what another process has said.
  bool send_any();
  bool advance_next();
  // Another turn is wanted at once.
  bool has_more() const;
  bool has_doomed() const { return !doomed_.empty(); }
  bool has_undecided() const { return !to_decide_.empty(); }
  std::optional<TimePoint> next_deadline() const;
  std::ptrdiff_t work_left() const { return work_left_; }
  void spend(std::size_t work) { work_left_ -= static_cast<std::ptrdiff_t>(work); }

  // There was no memory for what that client wanted, or for whose turn it was where none is named:
  // it ends, and whoever was interrupted with it; nobody else does.
  void lack_memory(ConnectionId id);

  // The next thing to be done, and null when all of it is.
  std::optional<SessionAction> next_action();

  std::size_t size() const { return table_.size(); }
  // The invariant that is broken, if one is, while no action is left to be performed.
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
  // A request of very many keys that is being carried out.
  struct LongRequest {
    ConnectionId from;
    c10d::Request request;  // its keys lie in decoder_, which is not used meanwhile
    Origin origin;
    std::size_t done = 0;  // of its keys
    bool has_all = true;   // what CHECK will be answered
    Parcel reply;          // and MULTI_GET
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
    std::vector<ConnectionId> left = {};  // since it is, in their order
  };

  // --- lives (store_sessions.cpp) ---
  StoreJournal* journal_of(const Session& session) const { return logs_[session.port].journal; }
  bool is_replayed(const Session& session) const { return logs_[session.port].is_replayed; }
  Store* store_of(const Session& session) const;
  // Null when nobody of that id is served any more.
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
  // What became of some bytes that were looked at.
  struct Digested {
    bool is_gone = false;      // the client was closed, or will be when its replies are written
    std::size_t consumed = 0;  // bytes whose requests were decided
    std::size_t needed = 0;    // bytes of the rest before it is worth another look
  };
  void greet(Session& session, std::string_view received);
  void hand_over(Session& session, Protocol speaks);
  void refuse_protocol(Session& session, std::string_view bytes);
  // Decides every whole request of `bytes`, and has the replies written in one go.
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

  // --- another's decisions ---
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
  void deliver(const Parcel& parcel);
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
  // What waits in either direction is entered in the books. False: that was too much, and it is
  // closed.
  bool settle(Session& session);

  const SessionLimits limits_;
  std::shared_ptr<Ledger> ledger_;     // the stores have it, too; whoever has it may outlive us
  std::vector<FindStore> ports_;       // empty: closed
  std::vector<TakenProtocols> taken_;  // by each of the ports
  std::vector<PortLog> logs_;          // of each of them
  SessionTable table_;
  Strangers strangers_;
  std::vector<SessionAction> actions_;  // those before next_action_ have been performed
  std::size_t next_action_ = 0;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::deque<ConnectionId> to_send_;       // who has something that was not caused by itself
  std::deque<ConnectionId> to_decide_;     // who has requests that were not decided in one visit
  std::deque<Doomed> doomed_;              // who is to be closed
  std::vector<std::uint32_t> unfinished_;  // ports whose store has something left to be done
  TimePoint now_{};
  std::ptrdiff_t work_left_ = 0;  // of this turn
  std::size_t turns_left_ = 0;    // of those who stood in line when this turn began
  std::size_t wakes_left_ = 0;    // of wakes_per_slice
  // For closing whoever there was no memory for; null: it is in use.
  std::unique_ptr<char[]> last_memory_;
  bool has_unlisted_doomed_ = false;  // there was not even memory to list them

  // Scratch space of one request at a time, kept to save allocations.
  c10d::Decoder decoder_;
  Actions decided_;
  std::size_t performed_ = 0;    // of them; the rest is still to be said
  std::string replies_;          // to the requests of `served_`, then of `gathered_for_`
  std::string encoded_;          // one answer for somebody else
  ConnectionId in_hand_{};       // whose turn it is
  ConnectionId served_{};        // whose bytes are being digested
  ConnectionId gathered_for_{};  // for whom replies_ are to be written
  std::string last_reason_;      // not empty: why `served_` is to be closed
  // What was just received. Nobody fills it before somebody speaks: that would cost every page of
  // it.
  std::unique_ptr<char[]> read_ = std::make_unique_for_overwrite<char[]>(bounds::store_read_bytes);
  ByteBuffer small_inbox_;           // whose requests are being decided,
  std::shared_ptr<Chunk> memory_;    // or this one's, which is large
  std::optional<LongRequest> long_;  // nobody else is served while there is one
};

}  // namespace cpprun
