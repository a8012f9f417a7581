// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What one peer makes the process hold beside its store: bytes of a link, of a TLS handshake, of an
// HTTP request and its response. Charged to the peer's address, in the ledger that also counts the
// store clients.

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "rendezvous/peer_address.h"
#include "rendezvous/store/ledger.h"

namespace cpprun {

class PeerMemory {
 public:
  PeerMemory(std::shared_ptr<Ledger> ledger, const PeerAddress& peer)
      : ledger_(std::move(ledger)),
        account_(ledger_->open_connection(peer)),
        charge_(*ledger_, account_, 0) {}
  ~PeerMemory() {
    charge_ = Charge();
    ledger_->close_connection(account_);
  }
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Charges `bytes` in place of what was charged before. The reason why it must not be that much;
  // empty: it may.
  std::string hold(std::size_t bytes) {
    const std::size_t before = std::exchange(bytes_, bytes);
    std::string objection =
        bytes > before ? ledger_->objection(account_, bytes - before) : std::string();
    charge_.resize(bytes);
    return objection;
  }

  std::size_t bytes() const { return bytes_; }
  // The same; the reason why all that its address holds is too much, also where this is not more
  // than before.
  std::string hold_at_all(std::size_t bytes) {
    charge_.resize(bytes_ = bytes);
    return ledger_->objection(account_, 0);
  }

 private:
  std::shared_ptr<Ledger> ledger_;
  AccountId account_;
  Charge charge_;
  std::size_t bytes_ = 0;
};

}  // namespace cpprun
