// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The inside of ConnectionSet: the sockets of StoreSessions, which decides. connection_set.cpp
// holds what concerns ports, turns and time, connection_begins.cpp how connections come in,
// connection_traffic.cpp how bytes go in and out and how connections end, connection_streams.cpp
// what is different about those that have no socket.

#include <sys/epoll.h>

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/store/io/connection_set.h"
#include "rendezvous/store/io/listener.h"
#include "rendezvous/store/store_sessions.h"

namespace cpprun {

class ConnectionSet::Impl {
 public:
  explicit Impl(const ConnectionLimits& limits);
  ~Impl();

  Result<Listening> listen(StoreHost& host, const ListenOptions& options);
  void stop_listening(ListenerId listener, const std::string& reason);
  void close_clients(ListenerId listener, const std::string& reason);
  Result<ConnectionId> open_stream(ListenerId listener, const PeerAddress& peer,
                                   std::shared_ptr<StoreStream> stream);
  void tell_stream(ConnectionId id, StreamNews news) {
    told_streams_.push_back({id, std::move(news)});
  }
  void serve_streams(TimePoint now);
  bool with_sessions(const std::function<void(StoreSessions&)>& step);
  int descriptor() const { return epoll_.get(); }
  bool serve(TimePoint now);
  void shut_down();
  std::optional<TimePoint> next_deadline() const;
  std::size_t connection_count() const { return sessions_.size(); }
  const Ledger& ledger() const { return *ledger_; }
  const std::shared_ptr<Ledger>& shared_ledger() const { return ledger_; }

 private:
  struct Port {
    StoreHost* host = nullptr;  // null: closed
    c10d::Dialect dialect = c10d::Dialect::undecided;
    OpenPort open;
    bool is_resting = false;  // it will be watched again: until then its number is taken
    std::size_t left = 0;     // once it is closed: its connections, which are still to be
  };
  struct ToldStream {
    ConnectionId id;
    StreamNews news;
  };
  struct Rest {
    TimePoint until;
    std::uint32_t port = 0;
  };

  // --- ports and turns (connection_set.cpp) ---
  bool watch(Port& port, std::uint64_t number);
  void unwatch(Port& port);
  void wake();
  void close_doomed();
  void serve_events();
  void handle(const epoll_event& event);
  void end_rests();

  // --- the doors (connection_begins.cpp) ---
  void serve_doors();
  void accept_some(std::uint32_t number);
  bool refuse_for_lack(Port& port, int listening, int error);
  bool make_room(ConnectionId newest = {});
  bool is_kept_for_links(int fd) const;
  void open_connection(int fd, const PeerAddress& peer, std::uint32_t number);
  bool pass_door(int fd, ConnectionId id);
  static int open_spare();

  // --- clients without a socket (connection_streams.cpp) ---
  void serve_told_streams();
  void hear_stream(const ToldStream& told);
  // Null: that is a socket's number.
  StoreStream* stream_of(int socket);
  std::size_t write_to(StoreStream& stream, std::span<const std::string_view> pieces);
  void admit_stream(const session::Admit& admit, StoreHost& host);
  void release_stream(int socket);

  // --- bytes, and what is decided of them (connection_traffic.cpp) ---
  void read(ConnectionId id);
  void perform();
  void on(const session::Write& write);
  void on(const session::Watch& watch);
  void on(const session::Admit& admit);
  void on(session::HandOver& hand_over);
  void on(const session::Close& close);
  // Does something for that connection, and what follows from it; where there is no memory for it,
  // that connection ends and nobody else.
  template <class Step>
  void with_memory(ConnectionId id, Step step) {
    try {
      step();
      return perform();
    } catch (const std::bad_alloc&) {
      sessions_.lack_memory(id);
    }
    try {
      perform();
    } catch (const std::bad_alloc&) {
      sessions_.lack_memory({});  // what is left to be done is done in the next turn
    }
  }

  std::shared_ptr<Ledger> ledger_;
  FileDescriptor epoll_;
  FileDescriptor doors_;  // watches ports and strangers, and is watched by epoll_
  FileDescriptor wake_;   // readable while serve() is needed and nothing else may call it
  // Given up for a moment when there are no more, so that a client can be told by a close.
  FileDescriptor spare_;
  // Descriptors from this number on are kept for links.
  const int kept_for_links_from_;
  const std::size_t clients_max_;        // connections and ports, so that those stay free
  const std::ptrdiff_t share_of_doors_;  // of a turn's work
  StoreSessions sessions_;
  std::deque<Port> ports_;  // an id is an index; that of a closed one is given to another
  // By their numbers; null: that place is free.
  std::vector<std::shared_ptr<StoreStream>> streams_;
  std::vector<std::size_t> free_streams_;
  std::deque<ToldStream> told_streams_;
  std::vector<ToldStream> told_later_;  // of stores that another process decides
  std::deque<Rest> rests_;  // of ports that could accept nothing, the first to end in front
  TimePoint now_{};
  std::ptrdiff_t work_after_doors_ = 0;  // what of this turn's is not for the doors
  bool is_woken_ = false;                // wake_ is readable
  bool events_are_first_ = false;        // before what is queued, in this turn
  std::size_t port_sockets_ = 0;         // that are open
  std::array<epoll_event, 256> events_{};
  std::size_t event_count_ = 0;  // of events_, and which of them
  std::size_t next_event_ = 0;   // is the next to be looked at
};

}  // namespace cpprun
