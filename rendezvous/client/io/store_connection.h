// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The connection below the clients of a store: reaching one, then requests out and replies in.

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

// Reaches a store: resolves the name, tries every address until one answers or the time is over,
// and makes sure that what answers is a store.
// A connected, non-blocking socket on which the handshake of dialect D is done. Blocks for at most
// `timeout`. The failure names the place, the time spent and what happened last.
Result<FileDescriptor> dial_store(const std::string& host, std::uint16_t port, Duration timeout);

// Requests out, replies in, in order, over one connection: what AsyncStoreClient is made of. One
// wait at a time may be under way, as the last; whatever is asked behind it is held back.
class StoreExchange {
 public:
  // The reply's views are good until the function returns.
  using Answered = std::function<void(Result<c10d::Reply>)>;

  StoreExchange(const StoreClientOptions& options, FileDescriptor socket)
      : options_(options), socket_(std::move(socket)) {}

  // Asked of by a fork of the process that opened it, everything fails: both would take each
  // other's answers.
  const StoreClientOptions& options() const { return options_; }
  int descriptor() const { return socket_.get(); }
  bool has_unwritten() const { return !outbox_.empty(); }
  // Not empty: why nothing works any more.
  const std::string& broken() const { return broken_; }

  // `what` is for the failure: "no answer from the store to <what>".
  void ask(const c10d::Request& request, std::string what, Duration timeout, Answered answered);
  int next_wait_ms() const;
  void serve();
  // Only the writing part of serve().
  void write();

 private:
  struct Asked {
    std::string bytes;  // until it is sent
    c10d::Expected expected;
    std::string what;
    Duration timeout{};  // from when it is sent
    TimePoint deadline;
    Answered answered;
    bool is_wait = false;
    bool is_cancelled = false;  // CANCEL_WAIT was sent behind it
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
  // Sent and not answered, in order. Invariant: only the last may be a wait. The store takes any
  // further request as the end of it, and the last can be cancelled without touching the others.
  std::deque<Asked> under_way_;
  std::deque<Asked> held_;  // not sent, because a wait is under way
  ByteBuffer outbox_;
  ByteBuffer inbox_;
  std::size_t needed_ = 0;  // bytes before the next reply is whole
  c10d::ReplyDecoder decoder_;
};

}  // namespace cpprun
