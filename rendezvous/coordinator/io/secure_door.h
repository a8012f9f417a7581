// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where those come in who have to prove that they hold the secret: their handshakes, however many,
// within places and time that are bounded. Whoever is through speaks the link from then on.

#include <asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "rendezvous/coordinator/admission_control.h"
#include "rendezvous/io/asio_loop.h"
#include "rendezvous/io/secure_connection.h"
#include "rendezvous/peer_address.h"
#include "rendezvous/store/ledger.h"

namespace cpprun {

class SecureDoor {
 public:
  struct Callbacks {
    // Is through, and has said what it speaks.
    std::function<void(SecureHandshake::Done, const PeerAddress&)> through;
    // For the log: a clause that completes "refused: ".
    std::function<void(const PeerAddress&, std::string reason)> refused;
  };

  SecureDoor(asio::io_context& context, std::shared_ptr<SecureContext> secure, Callbacks callbacks,
             std::shared_ptr<Ledger> ledger, HandshakePlaces places = HandshakePlaces());
  ~SecureDoor();
  SecureDoor(const SecureDoor&) = delete;
  SecureDoor& operator=(const SecureDoor&) = delete;

  // Of which these bytes were read already.
  void adopt(asio::ip::tcp::socket socket, const PeerAddress& peer, std::string first_bytes);
  SecureContext& secure() { return *secure_; }
  std::size_t size() const { return places_.size(); }

 private:
  struct Visitor {
    PeerAddress peer;
    std::shared_ptr<SecureHandshake> handshake;
    std::unique_ptr<PeerMemory> memory;
  };

  std::unique_ptr<PeerMemory> memory_for(const PeerAddress& peer);
  void turn_out(HandshakeId id, std::string reason);
  void expire();

  std::shared_ptr<SecureContext> secure_;
  Callbacks callbacks_;
  std::shared_ptr<Ledger> ledger_;  // what handshakes hold is charged there
  HandshakePlaces places_;
  std::map<HandshakeId, Visitor> visitors_;
  MachineTimer timer_;
};

}  // namespace cpprun
