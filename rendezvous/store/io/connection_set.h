// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// All listening sockets and store connections of a process behind one epoll descriptor. Ten
// thousand of them cost little: a connection is one small slot, and has a buffer only while a
// request is partial or a reply could not be sent. What a connection speaks is told from its first
// bytes; store clients are served here, an agent's link is handed to the host.
//
// It has no thread, no loop and no Asio of its own. Whoever drives it waits until descriptor() is
// readable or next_deadline() has come, then calls serve(). ConnectionDriver does that for an
// io_context, StoreServer for a thread of its own.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/bounds.h"
#include "proto/c10d/request.h"
#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/logging.h"
#include "rendezvous/peer_address.h"
#include "rendezvous/store/ledger.h"
#include "rendezvous/store/session.h"
#include "rendezvous/store/store.h"

namespace cpprun {

class StoreSessions;

// One line for the log, in parts so that alike lines can be recognised and counted.
struct Note {
  bool ordinary = false;            // a client that simply left; usually not worth a line
  std::optional<PeerAddress> peer;  // whom it is about
  std::string text;                 // e.g. "closed: unknown opcode 71"
  LogLevel level = LogLevel::info;  // of one that is not ordinary
  bool of_job = false;              // what happened to a job is always written
  const char* peer_is = "store client";
};

// Who owns a store and decides who may use it. It is called from within serve() and may close
// clients or listeners while it is.
class StoreHost {
 public:
  virtual ~StoreHost() = default;
  // May this peer speak to the store now? Asked once, when its first bytes show a store client.
  virtual Result<void> admit(const PeerAddress& peer) = 0;
  // The same for one that comes through somebody's link, and was let in there.
  virtual Result<void> admit_stream(const PeerAddress& peer) {
    (void)peer;
    return {};
  }
  virtual Store& store() = 0;
  // This connection spoke the link; `first_bytes` begin with the preamble and were already read.
  virtual void adopt_link(FileDescriptor socket, PeerAddress peer, std::string first_bytes) = 0;
  // Whether whoever speaks HTTP or TLS is handed over as well; `first_bytes` are the beginning of
  // what they said.
  virtual TakenProtocols taken() const { return {}; }
  virtual void adopt_http(FileDescriptor socket, PeerAddress peer, std::string first_bytes) {
    (void)socket, (void)peer, (void)first_bytes;
  }
  virtual void adopt_secure(FileDescriptor socket, PeerAddress peer, std::string first_bytes) {
    (void)socket, (void)peer, (void)first_bytes;
  }
  // Who was closed and why, and what else an operator should know.
  virtual void note(Note note) = 0;
};

// A store client whose bytes come some other way than through a socket of its own. It is called
// from within serve().
class StoreStream {
 public:
  virtual ~StoreStream() = default;
  // What it has said and nobody has read goes there, as much as fits. How much that was.
  virtual std::size_t read(std::span<char> into) = 0;
  // It takes as much of that as it can, and says how much.
  virtual std::size_t write(std::string_view bytes) = 0;
  // It is over, and is not called any more.
  virtual void closed() = 0;
};

// What has happened to one.
struct StreamNews {
  bool has_bytes = false;   // there is something to be read
  bool has_room = false;    // it takes bytes again after it took less than all
  bool is_over = false;     // it has left, and all that it said was read
  std::string reason = {};  // why it has to go now; empty: it need not
};

// Bounds of one connection, of one turn, and of all memory; the defaults are the house's, tests
// choose smaller ones.
struct ConnectionLimits {
  std::size_t outbox_bytes_max = bounds::store_outbox_bytes_max;
  Duration reader_stall_max = bounds::store_reader_stall_max;
  std::size_t wakes_per_slice = bounds::store_wakes_per_slice;
  std::size_t work_per_turn = bounds::store_work_per_turn;
  std::size_t work_per_visit = bounds::store_work_per_visit;
  LedgerLimits memory = {};
  bool keeps_descriptors_for_links = false;  // a share that no store client gets
};

struct ListenOptions {
  std::string host;        // name or address; empty: every interface, IPv6 and IPv4
  std::uint16_t port = 0;  // 0: the kernel picks
  // What an undecided client is taken for; `undecided` detects it from the first bytes.
  c10d::Dialect dialect = c10d::Dialect::undecided;
  // Taken instead of `host`: what it meant when it was looked up before.
  std::vector<std::string> hosts = {};
  // Taken instead of all these: a socket that listens already. It is ours from here on; -1: none.
  int passed = -1;
  // There is no port: its clients come as streams.
  bool streams_only = false;
};

using ListenerId = Id<struct ListenerTag, std::uint32_t>;
struct Listening {
  ListenerId id;
  std::uint16_t port = 0;
  std::string address;  // "[::]:43211": what it is bound to, for people and machines
  std::vector<std::string> hosts = {};  // what a host that was named means now, as numbers
};

class ConnectionSet {
 public:
  explicit ConnectionSet(ConnectionLimits limits = {});
  ~ConnectionSet();
  ConnectionSet(const ConnectionSet&) = delete;
  ConnectionSet& operator=(const ConnectionSet&) = delete;

  // Opens a port whose store clients belong to `host`, which must outlive the listener.
  Result<Listening> listen(StoreHost& host, const ListenOptions& options);
  // Closes the port at once, and every connection that came through it when there is time for that.
  // The host is told how many those are, and is not called any more.
  void stop_listening(ListenerId listener, const std::string& reason);

  // Ends every store client of that listener, e.g. because its round is over: none of them is heard
  // from now on, and they are closed when there is time for that. Connections that have not said
  // anything yet stay: an agent may be among them.
  void close_clients(ListenerId listener, const std::string& reason);

  // A client of that listener's store. An error: it must not be, and nothing of it is kept.
  Result<ConnectionId> open_stream(ListenerId listener, const PeerAddress& peer,
                                   std::shared_ptr<StoreStream> stream);
  // Looked at by serve_streams(), or by serve() where that is what tells it.
  void tell_stream(ConnectionId id, StreamNews news);
  // What was told is done at once, without a way through descriptor(); never from within a call
  // of ours. What there is no time for is left to serve().
  void serve_streams(TimePoint now);

  // What another process has decided, or is to know (StoreSessions, "another process"): does that
  // step and whatever follows from it. False: there was no memory for it, and what it did is half
  // done. Never from within a call of ours.
  bool with_sessions(const std::function<void(StoreSessions&)>& step);

  // Readable when serve() has something to do.
  int descriptor() const;
  // Accepts, reads, decides and writes, a bounded slice of it, and never blocks. True: call again
  // at once, after whatever else the driver has to do.
  bool serve(TimePoint now);
  // When serve() wants to be called even if nothing became readable.
  std::optional<TimePoint> next_deadline() const;

  // Ends ports and connections also where a forked process has copies of their descriptors.
  void shut_down();

  std::size_t connection_count() const;
  // What the clients of all listeners make this process hold.
  const Ledger& ledger() const;
  // For what else is held on behalf of an address.
  std::shared_ptr<Ledger> shared_ledger() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cpprun
