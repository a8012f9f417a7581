// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Clients of an embedded store that prove that they hold its secret: their sockets, and TLS. To the
// store they are clients without a socket.

#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/client/io/store_cipher.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/peer_address.h"
#include "rendezvous/store/io/connection_set.h"

namespace cpprun {

// Has no thread. Not to be called from within a call of the ConnectionSet, except adopt().
class SecureClients {
 public:
  struct Callbacks {
    // Whether that client, which has the secret, may use the store.
    std::function<Result<void>(const PeerAddress&)> admit;
    // For the log: the reason is a clause that completes "closed: ".
    std::function<void(const PeerAddress&, const std::string& reason)> closed;
  };

  SecureClients(ConnectionSet& connections, MakeCipher make_cipher, Callbacks callbacks);
  ~SecureClients();
  SecureClients(const SecureClients&) = delete;
  SecureClients& operator=(const SecureClients&) = delete;

  // The port through which they come.
  void set_listener(ListenerId listener) { listener_ = listener; }
  // Takes a connection from which `first_bytes` were read already.
  void adopt(FileDescriptor socket, const PeerAddress& peer, std::string first_bytes);
  // Readable when serve() has something to do.
  int descriptor() const { return epoll_.get(); }
  std::optional<TimePoint> next_deadline() const;
  // A bounded amount of work; it never blocks. Returns true if it should be called again at once.
  // The streams of the ConnectionSet are to be served after it.
  bool serve(TimePoint now);
  // All that have not ended.
  std::size_t size() const { return clients_.size(); }
  bool has(ConnectionId id) const;
  // Ends all, even if a forked process has copies of the sockets.
  void shut_down();
  // For a fork: closes the copies of the descriptors.
  void close_copies() const;

 private:
  class Client;

  void handle(std::uint64_t number, std::uint32_t events);
  void begin(Client& client);
  // False: the client is over.
  bool receive(Client& client);
  void end(std::uint64_t number, const std::string& reason);

  ConnectionSet& connections_;
  const MakeCipher make_cipher_;
  const Callbacks callbacks_;
  ListenerId listener_{};
  FileDescriptor epoll_;
  FileDescriptor wake_;  // readable while there are closed clients
  std::map<std::uint64_t, std::shared_ptr<Client>> clients_;  // by numbers, which are not reused
  std::uint64_t last_number_ = 0;
  std::vector<std::uint64_t> closed_;  // by the store, to be released
  std::size_t handshakes_ = 0;
};

}  // namespace cpprun
