// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <utility>

#include "rendezvous/peer_address.h"
#include "rendezvous/store/ledger.h"

namespace cpprun {

// What a link makes us hold, in the books in which its stores' clients are. The ledger outlives it.
class LinkBooks {
 public:
  LinkBooks(Ledger& ledger, const PeerAddress& peer)
      : ledger_(ledger), account_(ledger.open_connection(peer)), charge_(ledger, account_, 0) {}
  ~LinkBooks() {
    charge_ = Charge();
    ledger_.close_connection(account_);
  }
  LinkBooks(const LinkBooks&) = delete;
  LinkBooks& operator=(const LinkBooks&) = delete;

  // Why it must not be that much; empty: it may.
  std::string hold(std::size_t bytes) {
    const std::size_t before = std::exchange(bytes_, bytes);
    std::string objection =
        bytes > before ? ledger_.objection(account_, bytes - before) : std::string();
    charge_.resize(bytes);
    return objection;
  }

  std::size_t bytes() const { return bytes_; }
  // Whatever is said of it; why that is more than may be in all, empty: it is not.
  std::string hold_at_all(std::size_t bytes) {
    charge_.resize(bytes_ = bytes);
    return ledger_.objection(account_, 0);
  }

 private:
  Ledger& ledger_;
  AccountId account_;
  Charge charge_;
  std::size_t bytes_ = 0;
};

}  // namespace cpprun
