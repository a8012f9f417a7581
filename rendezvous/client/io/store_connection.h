// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The connection of a store client: connecting (dial_store), and requests and replies
// (StoreExchange).

#include <unistd.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/c10d/codec.h"
#include "proto/c10d/request.h"
#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/byte_buffer.h"
#include "rendezvous/client/io/store_client.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

// Connects to a store: resolves the name, tries every address until one responds or the timeout is
// over, and checks that the peer is a store. Blocks for at most `timeout`. Returns a connected,
// non-blocking socket on which the handshake of dialect D is done. A failure names the address, the
// time spent and the last error.
Result<FileDescriptor> dial_store(const std::string& host, std::uint16_t port, Duration timeout);

// Sends requests and reads replies, in order, over one connection; AsyncStoreClient is built on it.
// Only one wait may be in flight, as the last request. Requests made after it are held back. In a
// fork of the process that opened the connection every request fails, because the two processes
// would read each other's replies.
class StoreExchange {
 public:
  // The views in the reply are valid until the function returns.
  using Answered = std::function<void(Result<c10d::Reply>)>;

  StoreExchange(const StoreClientOptions& options, FileDescriptor socket)
      : options_(options), socket_(std::move(socket)) {}

  const StoreClientOptions& options() const { return options_; }
  int descriptor() const { return socket_.get(); }
  bool has_unwritten() const { return !outbox_.empty(); }
  // Why nothing works any longer. Empty while the connection works.
  const std::string& broken() const { return broken_; }

  // `what` is for the error: "no answer from the store to <what>".
  void ask(const c10d::Request& request, std::string what, Duration timeout, Answered answered);
  int next_wait_ms() const;
  void serve();
  // Only the writing part of serve().
  void write();

 private:
  struct Asked {
    std::string bytes;  // empty once sent
    c10d::Expected expected;
    std::string what;
    Duration timeout{};  // counts from when it is sent
    TimePoint deadline;
    Answered answered;
    bool is_wait = false;
    bool is_cancelled = false;  // CANCEL_WAIT was sent after it
  };

  void release_held();
  void read();
  void take_replies();
  void finish(Asked& asked, const c10d::Reply& reply);
  void expire();
  void fail(std::string reason);
  bool is_of_this_process();

  StoreClientOptions options_;
  FileDescriptor socket_;
  const pid_t owner_ = ::getpid();
  std::string broken_;
  // Sent and not answered, in order. Invariant: only the last may be a wait. Any further request
  // would cancel it, and the last can be cancelled without affecting others.
  std::deque<Asked> under_way_;
  std::deque<Asked> held_;  // not sent, because a wait is in flight
  ByteBuffer outbox_;
  ByteBuffer inbox_;
  std::size_t needed_ = 0;  // bytes until the next reply is complete
  c10d::ReplyDecoder decoder_;
};

}  // namespace cpprun
