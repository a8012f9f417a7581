// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/io/secure_door.h"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "proto/bounds.h"
#include "proto/sniff.h"
#include "rendezvous/io/event_loop.h"

namespace cpprun {

namespace {

// OpenSSL's own, and the copies that it has of what was sent: measured, of half a handshake that is
// as long as it may be.
constexpr std::size_t bytes_of_handshake =
    bounds::secure_channel_bytes + 4 * bounds::handshake_bytes_max;

}  // namespace

SecureDoor::SecureDoor(asio::io_context& context, std::shared_ptr<SecureContext> secure,
                       Callbacks callbacks, std::shared_ptr<Ledger> ledger, HandshakePlaces places)
    : secure_(std::move(secure)),
      callbacks_(std::move(callbacks)),
      ledger_(std::move(ledger)),
      places_(std::move(places)),
      timer_(context, [this] { expire(); }) {}

SecureDoor::~SecureDoor() {
  for (const auto& [id, visitor] : visitors_) visitor.handshake->cancel();
}

// Null: refused. A flood of handshakes makes room for the next one, as it does where all places
// are taken: of the same address where that is at its limit, of any where all of them together are.
std::unique_ptr<PeerMemory> SecureDoor::memory_for(const PeerAddress& peer) {
  auto memory = std::make_unique<PeerMemory>(ledger_, peer);
  std::string objection = memory->hold(bytes_of_handshake);
  if (objection.empty()) return memory;
  const bool is_full = !ledger_->objection(AccountId{}, 0).empty();
  const std::string address = is_full ? std::string() : peer.source().host_text();
  if (const auto oldest = places_.oldest_of(address)) {
    turn_out(*oldest, "others came, and it had not proven anything yet");
    objection = memory->hold_at_all(bytes_of_handshake);
  }
  if (objection.empty()) return memory;
  callbacks_.refused(peer, std::move(objection));
  return nullptr;
}

void SecureDoor::adopt(asio::ip::tcp::socket socket, const PeerAddress& peer,
                       std::string first_bytes) {
  std::unique_ptr<PeerMemory> memory = memory_for(peer);
  if (!memory) return;
  std::shared_ptr<SecureHandshake> handshake;
  try {
    handshake =
        std::make_shared<SecureHandshake>(std::move(socket), secure_, std::move(first_bytes));
  } catch (const std::bad_alloc&) {
    return callbacks_.refused(peer, "there is no memory for it");
  }
  const auto taken = places_.take(boot_now(), peer.source().host_text());
  if (taken.evicted) turn_out(*taken.evicted, "others came, and it had not proven anything yet");
  visitors_[taken.id] = {peer, handshake, std::move(memory)};
  handshake->start(
      link_preamble,
      {.done =
           [this, id = taken.id, peer](SecureHandshake::Done done) {
             places_.leave(id);
             visitors_.erase(id);
             callbacks_.through(std::move(done), peer);
           },
       .failed = [this, id = taken.id](std::string reason) { turn_out(id, std::move(reason)); }});
  timer_.arm(places_.next_deadline());
}

void SecureDoor::turn_out(HandshakeId id, std::string reason) {
  places_.leave(id);
  auto visitor = visitors_.extract(id);
  if (visitor.empty()) return;
  visitor.mapped().handshake->cancel();
  callbacks_.refused(visitor.mapped().peer, std::move(reason));
}

void SecureDoor::expire() {
  for (const HandshakeId id : places_.expire(boot_now())) {
    turn_out(id, "it has not proven in time that it holds the secret");
  }
  timer_.arm(places_.next_deadline());
}

}  // namespace cpprun
