// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How a client connects to a store, without blocking: resolves the name, tries every address, and
// checks that the peer is a store; again and again until its time is over.

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "rendezvous/client/bounds.h"
#include "rendezvous/client/io/store_transport.h"
#include "rendezvous/client/store_error.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

class StoreDialler {
 public:
  using Outcome = StoreResult<std::unique_ptr<StoreTransport>>;
  // What to wait for before the next call of advance(): the descriptor, if there is one, or the
  // moment.
  struct Awaited {
    int descriptor = -1;
    short events = 0;  // as poll(2) has them
    TimePoint until;
  };

  // As dial_store(), whose time begins now.
  StoreDialler(StoreAddress address, Duration timeout);
  ~StoreDialler();
  StoreDialler(const StoreDialler&) = delete;
  StoreDialler& operator=(const StoreDialler&) = delete;

  // Goes as far as it can. The outcome, once: a connection on which the handshake of dialect D is
  // done, or the failure. Nothing: it waits.
  std::optional<Outcome> advance();
  const Awaited& awaited() const { return awaited_; }
  // Why there is no connection yet; empty if nothing has failed.
  std::string problem() const { return earlier_ ? earlier_->reason : std::string(); }

 private:
  struct Address {
    sockaddr_storage bytes{};
    socklen_t size = 0;
  };
  struct Found {
    int error = 0;
    std::vector<Address> addresses = {};
  };
  struct Lookup;
  enum class Phase { pausing, resolving, connecting, greeting };

  static Found look_up(const std::string& host, std::uint16_t port, int flags);
  std::optional<StoreError> resolve();
  std::optional<StoreError> take_addresses(Found found);
  // Connects to the next address.
  std::optional<StoreError> connect();
  std::optional<StoreError> finish_connecting();
  std::optional<StoreError> greet();
  std::optional<StoreError> send(std::string_view bytes);
  // Sets `outcome` when the store has answered.
  std::optional<StoreError> hear(std::optional<Outcome>& outcome);
  // The step failed: another address, a pause, or the end.
  std::optional<Outcome> fail(StoreError error);
  Outcome give_up(const StoreError& error) const;
  void await(Phase phase, Awaited awaited);

  const StoreAddress where_;
  const Duration timeout_;
  const TimePoint deadline_;
  Phase phase_ = Phase::pausing;
  Awaited awaited_;
  Duration pause_ = bounds::store_client_pause_first;
  std::shared_ptr<Lookup> lookup_;  // its thread may outlive this
  std::vector<Address> addresses_;
  std::size_t next_address_ = 0;
  TimePoint step_deadline_;
  FileDescriptor socket_;
  std::unique_ptr<StoreCipher> cipher_;  // null: without TLS
  std::string expected_;                 // the reply to the greeting
  std::string received_;
  std::optional<StoreError> earlier_;  // of the last round of attempts
};

}  // namespace cpprun
