// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// All listening sockets and store connections of a process behind one epoll descriptor. Ten
// thousand of them cost little: a connection is one small slot, and has a buffer only while a
// request is incomplete or a reply could not be sent. The first bytes of a connection show its
// protocol. Store clients are served here; an agent's link is handed to the host.
//
// This class has no thread, no loop and no Asio. The driver waits until descriptor() is readable or
// next_deadline() has come, then calls serve(). ConnectionDriver does that in an io_context,
// StoreServer in a thread of its own.

#include <sys/epoll.h>

#include <array>
#include <cstdint>
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

#include "proto/c10d/request.h"
#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/logging.h"
#include "rendezvous/peer_address.h"
#include "rendezvous/store/bounds.h"
#include "rendezvous/store/io/listener.h"
#include "rendezvous/store/io/socket_numbers.h"
#include "rendezvous/store/memory_accounting.h"
#include "rendezvous/store/session.h"
#include "rendezvous/store/store.h"
#include "rendezvous/store/store_sessions.h"

namespace cpprun {

// One line for the log, in parts, so that similar lines can be recognised and counted.
struct Note {
  bool ordinary = false;            // a client that simply left; usually not worth a line
  std::optional<PeerAddress> peer;  // the peer it is about
  std::string text;                 // e.g. "closed: unknown opcode 71"
  LogLevel level = LogLevel::info;  // if it is not ordinary
  bool of_job = false;              // events of a job are always logged
  const char* peer_is = "store client";
};

// Owns a store and decides who may use it. It is called from within serve(), and may close clients
// or listeners then.
class StoreHost {
 public:
  virtual ~StoreHost() = default;
  // Whether this peer may use the store now. Asked once, when its first bytes show a store client.
  virtual Result<void> admit(const PeerAddress& peer) = 0;
  // The same for a client that comes through a link and was admitted there.
  virtual Result<void> admit_stream(const PeerAddress& peer) {
    (void)peer;
    return {};
  }
  virtual Store& store() = 0;
  // This connection speaks the link's protocol. `first_bytes` begin with the preamble and were read
  // already.
  virtual void adopt_link(FileDescriptor socket, PeerAddress peer, std::string first_bytes) = 0;
  // Whether HTTP and TLS connections are handed over as well. `first_bytes` are what they have sent
  // so far.
  virtual TakenProtocols taken() const { return {}; }
  virtual void adopt_http(FileDescriptor socket, PeerAddress peer, std::string first_bytes) {
    (void)socket, (void)peer, (void)first_bytes;
  }
  virtual void adopt_secure(FileDescriptor socket, PeerAddress peer, std::string first_bytes) {
    (void)socket, (void)peer, (void)first_bytes;
  }
  // Reports closed connections with the reason, and other facts for an operator.
  virtual void note(Note note) = 0;
};

// A store client whose bytes do not come through a socket of its own. It is called from within
// serve().
class StoreStream {
 public:
  virtual ~StoreStream() = default;
  // Copies unread bytes of the client to `into`, as many as fit. Returns how many that were.
  virtual std::size_t read(std::span<char> into) = 0;
  // Takes as many of these bytes as it can, and returns how many.
  virtual std::size_t write(std::string_view bytes) = 0;
  // The stream is over and is not called again.
  virtual void closed() = 0;
};

// What has happened to a stream.
struct StreamNews {
  bool has_bytes = false;   // there is something to read
  bool has_room = false;    // it takes bytes again after it took less than all
  bool is_over = false;     // it has left, and all that it sent was read
  std::string reason = {};  // why it must be closed now; empty: it need not be
};

// Bounds of one connection, of one turn, and of all memory. The defaults are for production; tests
// use smaller ones.
struct ConnectionLimits {
  std::size_t outbox_bytes_max = bounds::store_outbox_bytes_max;
  Duration reader_stall_max = bounds::store_reader_stall_max;
  std::size_t wakes_per_slice = bounds::store_wakes_per_slice;
  std::size_t work_per_turn = bounds::store_work_per_turn;
  std::size_t work_per_visit = bounds::store_work_per_visit;
  MemoryLimits memory = {};
  bool keeps_descriptors_for_links = false;  // reserves a share that no store client gets
  // The process has other descriptors, which it opens and closes as it likes: nothing is reserved.
  bool shares_process = false;
};

struct ListenOptions {
  std::string host;        // name or address; empty: every interface, IPv6 and IPv4
  std::uint16_t port = 0;  // 0: the kernel chooses
  // The dialect of a client that has not shown one; `undecided` detects it from the first bytes.
  c10d::Dialect dialect = c10d::Dialect::undecided;
  // Used instead of `host`: its addresses from an earlier lookup.
  std::vector<std::string> hosts = {};
  // Used instead of all these: a socket that listens already. The set takes ownership; -1: none.
  int passed = -1;
  // Used instead of all these: the sockets of a port that another program in this process has
  // opened, with `hosts` as it has got them. The set takes ownership.
  std::vector<int> adopted = {};
  // No port is opened: all clients are streams.
  bool streams_only = false;
};

using ListenerId = Id<struct ListenerTag, std::uint32_t>;
struct Listening {
  ListenerId id;
  std::uint16_t port = 0;
  std::string address;                  // "[::]:43211": the bound address, for people and machines
  std::vector<std::string> hosts = {};  // the addresses of a named host, as numbers
};

// The sockets of StoreSessions, which makes the decisions.
class ConnectionSet {
 public:
  explicit ConnectionSet(const ConnectionLimits& limits = {});
  ~ConnectionSet();
  ConnectionSet(const ConnectionSet&) = delete;
  ConnectionSet& operator=(const ConnectionSet&) = delete;

  // Opens a port whose store clients belong to `host`, which must outlive the listener.
  Result<Listening> listen(StoreHost& host, const ListenOptions& options);
  // Closes the port at once, and every connection that came through it when there is time. The host
  // gets a note with their number, and is not called after that.
  void stop_listening(ListenerId listener, const std::string& reason);

  // Closes the port only: its connections are served as before.
  void stop_accepting(ListenerId listener);

  // Ends every store client of that listener, e.g. because its round is over. Nothing is read from
  // them from now on, and they are closed when there is time. Connections that have not sent
  // anything yet stay, because one may be an agent.
  void close_clients(ListenerId listener, const std::string& reason);

  // The listening sockets of a port.
  std::vector<int> sockets_of(ListenerId listener) const;
  // Adds a connection that another program in this process had, in that state of its conversation
  // (StoreSessions::Shown). StoreSessions::restore() adds the rest.
  Result<ConnectionId> adopt(ListenerId listener, int socket, const PeerAddress& peer,
                             std::uint64_t conversation);

  // Adds a client of that listener's store. On an error it is rejected, and nothing of it is kept.
  Result<ConnectionId> open_stream(ListenerId listener, const PeerAddress& peer,
                                   std::shared_ptr<StoreStream> stream);
  // For requests of the program itself, to which no limits apply.
  Result<ConnectionId> open_own_stream(ListenerId listener, std::shared_ptr<StoreStream> stream);
  // Handled by serve_streams(), or by serve() if that is the caller.
  void tell_stream(ConnectionId id, StreamNews news) {
    told_streams_.push_back({id, std::move(news)});
  }
  // Handles at once what tell_stream() reported, without a detour through descriptor(). Must not be
  // called from within a call of this class. What there is no time for is left to serve().
  void serve_streams(TimePoint now);

  // Has the driver call serve().
  void wake();
  // A request is half done: no store may be read.
  bool is_busy() const { return sessions_.is_busy(); }
  // All requests that were received are decided.
  bool is_idle() const { return told_streams_.empty() && !is_busy() && !sessions_.has_undecided(); }
  // All zeros for a client that is gone.
  PeerAddress address_of(ConnectionId id) const { return sessions_.address_of(id); }
  bool is_stream(ConnectionId id) const { return sessions_.socket_of(id) < -1; }

  // Runs a replication step (StoreSessions, "replication") and everything that follows from it.
  // Returns false if there was not enough memory and the step is half done. Must not be called from
  // within a call of this class.
  bool with_sessions(const std::function<void(StoreSessions&)>& step);

  // Readable when serve() has something to do.
  int descriptor() const { return epoll_.get(); }
  // Accepts, reads, decides and writes a bounded amount, and never blocks. Returns true if it
  // should be called again at once, after the driver's other work.
  bool serve(TimePoint now);
  // When serve() must be called even if nothing becomes readable.
  std::optional<TimePoint> next_deadline() const;

  // Ends ports, connections and streams, even if a forked process has copies of the descriptors.
  // Ports that were passed stay open for their other owners. Only the destructor may follow.
  void shut_down();
  // For a fork whose copy of this object cannot be used or destroyed, because another thread was
  // changing it: closes the copies of its descriptors.
  void close_copies() const;

  std::size_t connection_count() const { return sessions_.size(); }
  // Those that have a socket: all but the streams.
  std::size_t socket_count() const {
    return sessions_.size() - (streams_.size() - free_streams_.size());
  }
  // The memory that clients of all listeners make this process hold.
  const MemoryAccounting& accounting() const { return *accounting_; }
  // For other memory that is held on behalf of an address.
  const std::shared_ptr<MemoryAccounting>& shared_accounting() const { return accounting_; }

 private:
  struct Port {
    StoreHost* host = nullptr;  // null: closed
    c10d::Dialect dialect = c10d::Dialect::undecided;
    OpenPort open;
    bool is_resting = false;  // will be watched again; its number is in use until then
    std::size_t left = 0;     // once it is closed: its connections that are not closed yet
  };
  struct ToldStream {
    ConnectionId id;
    StreamNews news;
  };
  struct Rest {
    TimePoint until;
    std::uint32_t port = 0;
  };

  // --- ports and turns ---
  bool watch(Port& port, std::uint64_t number);
  void unwatch(Port& port);
  void close_doomed();
  void serve_events();
  void handle(const epoll_event& event);
  void end_rests();

  // --- the doors: how connections begin ---
  void serve_doors();
  void accept_some(std::uint32_t number);
  bool refuse_for_lack(Port& port, int listening, int error);
  void stop_accepting_at(Port& port, std::size_t socket, int error);
  bool make_room(ConnectionId newest = {});
  bool is_kept_for_links(int fd) const;
  void open_connection(int fd, const PeerAddress& peer, std::uint32_t number);
  bool pass_door(int fd, ConnectionId id);
  static int open_spare();

  // --- clients without a socket ---
  void serve_told_streams();
  void hear_stream(const ToldStream& told);
  // Null if that is the number of a socket.
  StoreStream* stream_of(int socket);
  ConnectionId add_stream(ListenerId listener, const PeerAddress& peer,
                          std::shared_ptr<StoreStream> stream);
  std::size_t write_to(StoreStream& stream, std::span<const std::string_view> pieces);
  void admit_stream(const session::Admit& admit, StoreHost& host);
  void release_stream(int socket);

  // --- bytes, and actions of StoreSessions ---
  void read(ConnectionId id);
  void perform();
  void on(const session::Write& write);
  void on(const session::Watch& watch);
  void on(const session::Admit& admit);
  void on(session::HandOver& hand_over);
  void on(const session::Close& close);
  // Runs a step for that connection and performs what follows from it. If there is no memory for
  // it, that connection ends, but no other.
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
      sessions_.lack_memory({});  // the next turn does what is left
    }
  }

  std::shared_ptr<MemoryAccounting> accounting_;
  FileDescriptor epoll_;
  FileDescriptor doors_;  // watches ports and unidentified connections; watched by epoll_
  FileDescriptor wake_;   // readable while serve() is needed and nothing else causes a call of it
  // Given up briefly when descriptors have run out, so that a client gets at least a close.
  FileDescriptor spare_;
  // Descriptors from this number on are reserved for links.
  const int kept_for_links_from_;
  const std::size_t clients_max_;        // how many connections and ports leave those free
  const std::ptrdiff_t share_of_doors_;  // of a turn's work
  StoreSessions sessions_;
  SocketNumbers accepted_;  // those of sessions_
  std::deque<Port> ports_;  // an id is an index; the id of a closed port is reused
  // By their numbers; null: the number is free.
  std::vector<std::shared_ptr<StoreStream>> streams_;
  std::vector<std::size_t> free_streams_;
  std::deque<ToldStream> told_streams_;
  std::vector<ToldStream> told_later_;  // for stores whose decisions another process makes
  std::deque<Rest> rests_;  // of ports that could accept nothing, the first to end in front
  TimePoint now_{};
  // How much of this turn's work must be left after the doors.
  std::ptrdiff_t work_after_doors_ = 0;
  bool is_woken_ = false;          // wake_ is readable
  bool events_are_first_ = false;  // events before queued requests, in this turn
  std::size_t port_sockets_ = 0;   // open sockets of ports
  std::array<epoll_event, 256> events_{};
  std::size_t event_count_ = 0;  // valid entries of events_
  std::size_t next_event_ = 0;   // index of the next one to handle
};

}  // namespace cpprun
