#pragma once
// The inside of ConnectionSet. connection_set.cpp holds what concerns ports, the lives of
// connections and time; c10d_session.cpp how a store client's bytes become requests and replies.

#include <sys/epoll.h>

#include <array>
#include <deque>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "rendezvous/io/connection.h"
#include "rendezvous/io/connection_set.h"
#include "rendezvous/io/listener.h"

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

 private:
  struct Port {
    StoreHost* host = nullptr;  // null: closed
    c10d::Dialect dialect = c10d::Dialect::undecided;
    OpenPort open;
    bool is_resting = false;  // a timer will watch it again: until then its number is taken
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

  // --- ports and lives (connection_set.cpp) ---
  Port& port_of(const Connection& connection) { return ports_[connection.listener]; }
  StoreHost& host_of(const Connection& connection) { return *port_of(connection).host; }
  bool watch(Port& port, std::uint64_t number);
  void unwatch(Port& port);
  void handle(const epoll_event& event);
  void accept_some(std::uint64_t number);
  bool refuse_for_lack(Port& port, int listening, int error);
  void open_connection(int fd, const PeerAddress& peer, std::uint32_t listener);
  // Nobody hears from that connection again. Others may: what it leaves behind is passed on.
  void close(Connection& connection, const std::string& reason, bool ordinary = false);
  FileDescriptor detach(Connection& connection);
  void hand_over(Connection& connection, std::string first_bytes);
  void run_timers();
  void look_at_reader(Connection& connection);
  void arm(TimerKind kind, std::uint64_t subject, Duration delay);
  // Tells epoll what this connection wants to hear of.
  void update_interest(Connection& connection);

  // --- bytes (c10d_session.cpp) ---
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
  enum class Recognised { store, not_yet, gone };
  Recognised recognise(Connection& connection, std::string_view bytes);
  void perform(const Effects& effects);
  void deliver(const Answer& answer);
  // These answer whether the connection is still there.
  bool flush_replies(Connection& connection);
  bool send(Connection& connection, std::string_view bytes);
  bool send_outbox(Connection& connection);
  void flush_queued();
  void pause(Connection& connection);
  static Backlog& backlog_of(Connection& connection);
  static void drop_empty_backlog(Connection& connection);

  const ConnectionLimits limits_;
  FileDescriptor epoll_;
  // Given up for a moment when there are no more, so that a client can be told by a close.
  FileDescriptor spare_;
  std::deque<Port> ports_;  // an id is an index; that of a closed one is given to another
  ConnectionTable table_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::deque<ConnectionId>
      to_send_;  // who has something to be sent that was not decided for itself
  TimePoint now_{};

  // Scratch space of one request at a time, kept to save allocations.
  c10d::Decoder decoder_;
  Effects effects_;
  std::string replies_;     // gathered for `served_`
  std::string encoded_;     // one answer for somebody else
  ConnectionId served_{};   // whose bytes are being digested
  std::vector<char> read_;  // what was just received
  std::array<epoll_event, 256> events_{};
};

}  // namespace cpprun
