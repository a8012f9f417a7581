// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/io/tls_acceptor.h"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "proto/secure/tls.h"
#include "proto/sniff.h"
#include "rendezvous/bounds.h"
#include "rendezvous/io/event_loop.h"

namespace cpprun {

namespace {

// The memory of OpenSSL and its copies of what was sent, measured for half a handshake of the
// maximum length.
constexpr std::size_t bytes_of_handshake =
    bounds::secure_channel_bytes + 4 * bounds::handshake_bytes_max;

}  // namespace

TlsAcceptor::TlsAcceptor(asio::io_context& context, std::shared_ptr<SecureContext> secure,
                         Callbacks callbacks, std::shared_ptr<MemoryAccounting> accounting,
                         HandshakeAdmission places)
    : secure_(std::move(secure)),
      callbacks_(std::move(callbacks)),
      accounting_(std::move(accounting)),
      places_(std::move(places)),
      timer_(context, [this] { expire(); }) {}

TlsAcceptor::~TlsAcceptor() {
  for (const auto& [id, pending] : pending_) pending.handshake->cancel();
}

// Returns null if the peer is refused. If memory is short, the oldest handshake is closed to make
// room, as when all slots are taken. It is one of the same address if that address is at its limit,
// and of any address if the total is at its limit.
std::unique_ptr<PeerMemory> TlsAcceptor::memory_for(const PeerAddress& peer) {
  auto memory = std::make_unique<PeerMemory>(accounting_, peer);
  std::string objection = memory->hold(bytes_of_handshake);
  if (objection.empty()) return memory;
  const bool is_full = !accounting_->objection(AccountId{}, 0).empty();
  const std::string address = is_full ? std::string() : peer.source().host_text();
  if (const auto oldest = places_.oldest_of(address)) {
    turn_out(*oldest, "evicted before authentication to make room for newer clients");
    objection = memory->hold_at_all(bytes_of_handshake);
  }
  if (objection.empty()) return memory;
  callbacks_.refused(peer, std::move(objection));
  return nullptr;
}

void TlsAcceptor::adopt(asio::ip::tcp::socket socket, const PeerAddress& peer,
                        std::string first_bytes) {
  std::unique_ptr<PeerMemory> memory = memory_for(peer);
  if (!memory) return;
  std::shared_ptr<SecureHandshake> handshake;
  try {
    handshake =
        std::make_shared<SecureHandshake>(std::move(socket), secure_, std::move(first_bytes));
  } catch (const std::bad_alloc&) {
    return callbacks_.refused(peer, "out of memory");
  }
  const auto taken = places_.take(boot_now(), peer.source().host_text());
  if (taken.evicted)
    turn_out(*taken.evicted, "evicted before authentication to make room for newer clients");
  pending_[taken.id] = {peer, handshake, std::move(memory)};
  handshake->start(
      link_preamble,
      {.done =
           [this, id = taken.id, peer](SecureHandshake::Done done) {
             places_.leave(id);
             pending_.erase(id);
             callbacks_.through(std::move(done), peer);
           },
       .failed = [this, id = taken.id](std::string reason) { turn_out(id, std::move(reason)); }});
  timer_.arm(places_.next_deadline());
}

void TlsAcceptor::turn_out(HandshakeId id, std::string reason) {
  places_.leave(id);
  auto pending = pending_.extract(id);
  if (pending.empty()) return;
  pending.mapped().handshake->cancel();
  callbacks_.refused(pending.mapped().peer, std::move(reason));
}

void TlsAcceptor::expire() {
  for (const HandshakeId id : places_.expire(boot_now())) {
    turn_out(id, "the peer did not prove in time that it has the secret");
  }
  timer_.arm(places_.next_deadline());
}

}  // namespace cpprun
