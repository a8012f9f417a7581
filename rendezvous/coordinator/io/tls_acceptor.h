// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Accepts TLS connections. It runs any number of handshakes within limited slots, memory and time,
// and passes on each connection that has proved that it holds the secret.

#include <asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "rendezvous/coordinator/admission_control.h"
#include "rendezvous/io/asio_loop.h"
#include "rendezvous/io/secure_connection.h"
#include "rendezvous/peer_address.h"
#include "rendezvous/store/memory_accounting.h"

namespace cpprun {

class TlsAcceptor {
 public:
  struct Callbacks {
    // The handshake is complete, and the peer has sent its preamble.
    std::function<void(SecureHandshake::Done, const PeerAddress&)> through;
    // For the log: the reason is a clause that completes "refused: ".
    std::function<void(const PeerAddress&, std::string reason)> refused;
  };

  TlsAcceptor(asio::io_context& context, std::shared_ptr<SecureContext> secure, Callbacks callbacks,
              std::shared_ptr<MemoryAccounting> accounting,
              HandshakeAdmission places = HandshakeAdmission());
  ~TlsAcceptor();
  TlsAcceptor(const TlsAcceptor&) = delete;
  TlsAcceptor& operator=(const TlsAcceptor&) = delete;

  // Takes a connection from which `first_bytes` were already read.
  void adopt(asio::ip::tcp::socket socket, const PeerAddress& peer, std::string first_bytes);
  SecureContext& secure() { return *secure_; }
  std::size_t size() const { return places_.size(); }

 private:
  struct Pending {
    PeerAddress peer;
    std::shared_ptr<SecureHandshake> handshake;
    std::unique_ptr<PeerMemory> memory;
  };

  std::unique_ptr<PeerMemory> memory_for(const PeerAddress& peer);
  void turn_out(HandshakeId id, std::string reason);
  void expire();

  std::shared_ptr<SecureContext> secure_;
  Callbacks callbacks_;
  std::shared_ptr<MemoryAccounting> accounting_;  // accounts for the memory of handshakes
  HandshakeAdmission places_;
  std::map<HandshakeId, Pending> pending_;
  MachineTimer timer_;
};

}  // namespace cpprun
