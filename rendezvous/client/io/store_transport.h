// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The bytes between a client and its store, and how a client connects.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "proto/clock.h"
#include "rendezvous/client/io/store_cipher.h"
#include "rendezvous/client/store_error.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

class LocalStore;

class StoreTransport {
 public:
  virtual ~StoreTransport() = default;
  // Both transfer at least one byte before the deadline, or fail. After `timeout` the connection
  // can still be used.
  virtual StoreResult<std::size_t> send(std::string_view bytes, TimePoint deadline) = 0;
  virtual StoreResult<std::size_t> receive(std::span<char> into, TimePoint deadline) = 0;
  // Sends what an earlier call has accepted and not sent yet: true if nothing is left.
  virtual StoreResult<bool> flush(TimePoint deadline) {
    (void)deadline;
    return true;
  }
  // Readable while there is something to receive, for programs with a loop of their own.
  virtual StoreResult<int> descriptor() = 0;
  // Ends the connection: calls of other threads fail with `closed`.
  virtual void interrupt() noexcept = 0;
  // Null if the store is not in this process.
  virtual LocalStore* local() { return nullptr; }
};

// Where a store is.
struct StoreAddress {
  std::string host = {};  // a name, an address or "unix:PATH"
  std::uint16_t port = 0;
  MakeCipher make_cipher = {};  // null: without TLS
};

// Connects to a store: resolves the name, tries every address until one responds or the timeout is
// over, and checks that the peer is a store. Takes no longer than `timeout`, even if a name server
// does not respond. Returns a connection on which the handshake of dialect D is done. A failure
// names the address, the time spent and the last error.
StoreResult<std::unique_ptr<StoreTransport>> dial_store(const StoreAddress& address,
                                                        Duration timeout);

// Over a connected socket that does not block.
std::unique_ptr<StoreTransport> store_transport_over(FileDescriptor socket);
// The same behind a cipher whose handshake is done.
std::unique_ptr<StoreTransport> store_transport_over(FileDescriptor socket,
                                                     std::unique_ptr<StoreCipher> cipher);
// The code for an errno of a socket.
StoreErrorCode store_error_code_of(int error);

}  // namespace cpprun
