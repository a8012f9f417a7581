// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The inside of ConnectionSet. connection_set.cpp holds what concerns ports, turns and time,
// connection_begins.cpp how connections come in, connection_ends.cpp how they end; c10d_session.cpp
// how a store client's bytes become requests, c10d_replies.cpp how what the store decides becomes
// bytes, c10d_long_request.cpp what happens where that takes more than one turn.

#include <sys/epoll.h>

#include <array>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "rendezvous/store/io/connection.h"
#include "rendezvous/store/io/connection_set.h"
#include "rendezvous/store/io/listener.h"
#include "rendezvous/store/io/strangers.h"

namespace cpprun {

class ConnectionSet::Impl {
 public:
  explicit Impl(ConnectionLimits limits);
  ~Impl();

  Result<Listening> listen(StoreHost& host, const ListenOptions& options);
  void stop_listening(ListenerId listener, const std::string& reason);
  void close_clients(ListenerId listener, const std::string& reason);
  int descriptor() const { return epoll_.get(); }
  bool serve(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  std::size_t connection_count() const { return table_.size(); }
  Ledger& ledger() const { return *ledger_; }

 private:
  struct Port {
    StoreHost* host = nullptr;  // null: closed
    c10d::Dialect dialect = c10d::Dialect::undecided;
    OpenPort open;
    bool is_resting = false;  // a timer will watch it again: until then its number is taken
    std::size_t left = 0;     // once it is closed: its connections, which are still to be
  };
  enum class TimerKind { ambiguity, stall, rest, greeting };
  struct Timer {
    TimePoint when;
    TimerKind kind = TimerKind::rest;
    std::uint64_t subject = 0;  // a connection's id, or a port's number
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

  // --- ports and lives (connection_set.cpp) ---
  Port& port_of(const Connection& connection) { return ports_[connection.listener]; }
  StoreHost& host_of(const Connection& connection) { return *port_of(connection).host; }
  bool watch(Port& port, std::uint64_t number);
  void unwatch(Port& port);
  void handle(const epoll_event& event);
  void accept_some(std::uint64_t number);
  bool refuse_for_lack(Port& port, int listening, int error);
  // Closes the connection that has been silent for longest; false where nobody is silent.
  bool make_room(ConnectionId newest = {});
  bool is_kept_for_links(int fd) const;
  void open_connection(int fd, const PeerAddress& peer, std::uint32_t listener);
  // Nobody hears from that connection again. Others may: what it leaves behind is passed on.
  void close(Connection& connection, const std::string& reason, bool ordinary = false);
  // The same, as soon as there is time for it.
  std::size_t doom(ListenerId listener, const std::string& reason, bool with_strangers);
  void close_doomed();
  void forget(StoreHost& host, std::uint32_t listener, ConnectionId id);
  Connection* heard(ConnectionId id);
  FileDescriptor detach(Connection& connection);
  void hand_over(Connection& connection, std::string first_bytes);
  void run_timers();
  void look_at_reader(Connection& connection);
  void arm(TimerKind kind, std::uint64_t subject, Duration delay);
  // Tells epoll what this connection wants to hear of.
  void update_interest(Connection& connection);

  // --- work and memory ---
  void spend(std::size_t work) { work_left_ -= static_cast<std::ptrdiff_t>(work); }
  void serve_events();
  void serve_doors();
  bool pass_door(Connection& connection);
  void recover_memory();
  static int open_spare();
  void notice_unfinished(std::uint32_t listener);
  bool go_on_with_stores();
  // Does something for that connection; where there is no memory for it, that connection ends and
  // nobody else.
  template <class Act>
  void with_memory(ConnectionId id, Act act) {
    try {
      act();
    } catch (const std::bad_alloc&) {
      lack_memory(id);
    }
  }
  void lack_memory(ConnectionId id);

  // --- requests (c10d_session.cpp) ---
  // What became of some bytes that were looked at.
  struct Digested {
    bool is_gone = false;      // the connection was closed or handed over
    std::size_t consumed = 0;  // bytes whose requests were decided
    std::size_t needed = 0;    // bytes of the rest before it is worth another look
  };
  void on_readable(Connection& connection);
  void on_writable(Connection& connection);
  // Decides every whole request of `bytes`, then sends the replies in one go.
  Digested digest(Connection& connection, std::string_view bytes, c10d::Progress& progress,
                  bool grace_over);
  Digested decide(Connection& connection, std::string_view bytes, c10d::Progress& progress,
                  bool grace_over);
  // The same with what waits in the inbox.
  void digest_inbox(Connection& connection, bool grace_over);
  void end(ConnectionId id, const std::string& reason);
  Digested refuse(Connection& connection, const std::string& reason);
  void carry_out(Connection& connection, Store& store, const c10d::Complete& complete);
  bool is_long(const c10d::Complete& complete) const;
  void begin_long(Connection& connection, const c10d::Complete& complete);
  void go_on_with_long();
  void end_long();
  // Something is under way that must be over before anybody else asks anything.
  bool is_busy() const { return long_.has_value() || !unfinished_.empty(); }
  void queue_turn(Connection& connection);
  void queue_unfinished(Connection& connection);
  void decide_queued();
  bool go_on_listing(Connection& connection);
  enum class Recognised { store, not_yet, gone };
  Recognised recognise(Connection& connection, std::string_view bytes);

  // --- replies (c10d_replies.cpp) ---
  void perform(const Actions& actions);
  void deliver(const Answer& answer);
  void deliver(const Parcel& parcel);
  void refuse_huge_reply(ConnectionId to);
  Outbox& outbox_of(Connection& connection);
  void queue_to_send(Connection& connection);
  void flush_one(Connection& connection);
  // These answer whether the connection is still there.
  bool flush_replies(Connection& connection);
  bool send(Connection& connection, std::string_view bytes);
  bool send_outbox(Connection& connection);
  bool settle(Connection& connection);
  void flush_queued();
  void pause(Connection& connection);
  static Backlog& backlog_of(Connection& connection);
  void drop_empty_backlog(Connection& connection);

  const ConnectionLimits limits_;
  std::shared_ptr<Ledger> ledger_;  // the stores have it, too; whoever has it may outlive us
  FileDescriptor epoll_;
  FileDescriptor doors_;  // watches ports and strangers, and is watched by epoll_
  FileDescriptor wake_;   // readable while somebody is to be closed: nothing else may call serve()
  // Given up for a moment when there are no more, so that a client can be told by a close.
  FileDescriptor spare_;
  // Descriptors from this number on are kept for links.
  const int kept_for_links_from_;
  const std::size_t clients_max_;  // connections and ports, so that those stay free
  Strangers strangers_;
  std::deque<Port> ports_;  // an id is an index; that of a closed one is given to another
  ConnectionTable table_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::deque<ConnectionId>
      to_send_;  // who has something to be sent that was not decided for itself
  std::deque<ConnectionId> to_decide_;  // who has requests that were not decided in one visit
  struct Doomed {
    ConnectionId id;
    std::shared_ptr<const std::string> reason;
  };
  std::deque<Doomed> doomed_;              // who is to be closed
  std::vector<std::uint32_t> unfinished_;  // ports whose store has something left to be done
  TimePoint now_{};
  std::ptrdiff_t work_left_ = 0;         // of this turn
  std::ptrdiff_t work_after_doors_ = 0;  // what of it is not for the doors
  bool events_are_first_ = false;        // before what is queued, in this turn
  std::size_t port_sockets_ = 0;         // that are open
  // For closing whoever there was no memory for; null: it is in use.
  std::unique_ptr<char[]> last_memory_;
  bool has_unlisted_doomed_ = false;  // there was not even memory to list them

  // Scratch space of one request at a time, kept to save allocations.
  c10d::Decoder decoder_;
  Actions actions_;
  std::string replies_;              // gathered for `served_`
  std::string encoded_;              // one answer for somebody else
  ConnectionId served_{};            // whose bytes are being digested
  std::vector<char> read_;           // what was just received
  ByteBuffer small_inbox_;           // whose requests are being decided,
  std::shared_ptr<Chunk> memory_;    // or this one's, which is large
  std::optional<LongRequest> long_;  // nobody else is served while there is one
  std::array<epoll_event, 256> events_{};
  std::size_t event_count_ = 0;  // of events_, and which of them
  std::size_t next_event_ = 0;   // is the next to be looked at
};

}  // namespace cpprun
