// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Accounting for the memory that clients of the store make a process hold (MemoryAccounting), the
// hash of keys, and memory that a peer holds outside the store (PeerMemory).

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/rank.h"
#include "rendezvous/peer_address.h"
#include "rendezvous/store/bounds.h"

namespace cpprun {

// SipHash: the hash of a key cannot be predicted without the seed. Keys come from untrusted
// clients. If the hash were known, they could choose keys that all fall into one bucket.
struct HashSeed {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

// With one round per word and three at the end, as hash tables use it.
std::uint64_t key_hash(const HashSeed& seed, std::string_view key);
// With two and four, as published; its test vectors cover both.
std::uint64_t siphash_2_4(const HashSeed& seed, std::string_view key);

// The account of one address. Account 0 belongs to no particular address and has no limits.
using AccountId = Id<struct AccountTag, std::uint32_t>;

struct MemoryLimits {
  static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t bytes_max = none;  // of all clients together
  std::uint64_t address_bytes_max = none;
  std::uint64_t address_keys_max = none;
  std::uint64_t address_connections_max = none;
};

// What remains of a large object that is no longer used.
class DeferredFree {
 public:
  virtual ~DeferredFree() = default;
  // Does about as much work as copying `work` bytes, and subtracts from `work` what it used.
  // Returns true when nothing is left.
  virtual bool free_some(std::size_t& work) = 0;
};

// Accounts for the memory that clients of the store make a process hold: values, keys, waits,
// incomplete requests, and replies that were not read yet. Kept in total and for each address,
// because an address is all that is known of an unidentified client. IPv6 addresses that share
// their first 64 bits count as one. The accounting allocates nothing and rejects nothing by itself:
// callers ask before they hold more.
//
// Large objects are freed in pieces, because freeing a gigabyte at once would make all clients
// wait.
class MemoryAccounting {
 public:
  explicit MemoryAccounting(MemoryLimits limits = {}, HashSeed seed = {})
      : limits_(limits), seed_(seed) {}
  ~MemoryAccounting();
  MemoryAccounting(const MemoryAccounting&) = delete;
  MemoryAccounting& operator=(const MemoryAccounting&) = delete;

  // --- addresses ---
  // Why that address must not open another connection; empty if it may.
  std::string objection_to_connection(const PeerAddress& peer) const;
  AccountId open_connection(const PeerAddress& peer);
  void close_connection(AccountId account);

  // --- memory ---
  // Why this account must not hold that much more; empty if it may.
  std::string objection(AccountId account, std::uint64_t bytes, std::uint64_t keys = 0) const {
    return has_room(account, bytes, keys) ? std::string() : explain(account, bytes, keys);
  }
  bool has_room(AccountId account, std::uint64_t bytes, std::uint64_t keys) const {
    if (bytes_held_ + bytes > bytes_max_for(bytes)) return false;
    if (account.value == 0) return true;
    const Account& page = accounts_[account.value];
    return page.bytes + bytes <= limits_.address_bytes_max &&
           page.keys + keys <= limits_.address_keys_max;
  }
  void charge(AccountId account, std::uint64_t bytes, std::uint64_t keys = 0);
  void credit(AccountId account, std::uint64_t bytes, std::uint64_t keys = 0);
  std::uint64_t bytes_held() const { return bytes_held_; }
  std::uint64_t bytes_held_by(AccountId account) const;

  // --- freeing ---
  // Whether free_some() is called from now on. If not, everything is freed at once.
  void tend(bool is_tended);
  bool is_tended() const { return is_tended_; }
  // Keeps the remains to free them later. Frees them at once if there is no memory to keep them.
  void free_later(std::unique_ptr<DeferredFree> remains) noexcept;
  bool has_deferred() const { return !deferred_.empty(); }
  void free_some(std::size_t work);

  const HashSeed& seed() const { return seed_; }

 private:
  struct Account {
    PeerAddress source;
    std::uint64_t bytes = 0;
    std::uint64_t keys = 0;
    std::uint64_t connections = 0;
  };
  std::string explain(AccountId account, std::uint64_t bytes, std::uint64_t keys) const;
  std::uint64_t bytes_max_for(std::uint64_t bytes) const {
    if (bytes < bounds::store_bulk_bytes_min || limits_.bytes_max == MemoryLimits::none) {
      return limits_.bytes_max;
    }
    return limits_.bytes_max - limits_.bytes_max / 8;
  }
  void close_if_empty(AccountId account);

  MemoryLimits limits_;
  HashSeed seed_;
  bool is_tended_ = false;
  std::uint64_t bytes_held_ = 0;
  std::vector<Account> accounts_{1};  // an id is an index; the first belongs to no address
  std::vector<std::uint32_t> free_;
  std::map<std::array<std::uint8_t, 16>, std::uint32_t> by_source_;
  std::vector<std::unique_ptr<DeferredFree>> deferred_;  // the last is freed first
};

// Books memory for as long as this object lives. The accounting must outlive it.
class Reservation {
 public:
  Reservation() = default;
  Reservation(MemoryAccounting& accounting, AccountId account, std::size_t bytes,
              bool is_key = false)
      : accounting_(&accounting), bytes_(bytes), account_(account), is_key_(is_key) {
    accounting.charge(account, bytes, is_key ? 1 : 0);
  }
  Reservation(Reservation&& other) noexcept { swap(other); }
  Reservation& operator=(Reservation&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Reservation() {
    if (accounting_ != nullptr) accounting_->credit(account_, bytes_, is_key_ ? 1 : 0);
  }
  void resize(std::size_t bytes) {
    if (accounting_ == nullptr || bytes == bytes_) return;
    accounting_->credit(account_, bytes_);
    accounting_->charge(account_, bytes_ = bytes);
  }
  void grow(std::size_t bytes) { resize(bytes_ + bytes); }
  bool is_of(const MemoryAccounting& accounting, AccountId account) const {
    return accounting_ == &accounting && account_ == account;
  }

 private:
  void swap(Reservation& other) {
    std::swap(accounting_, other.accounting_);
    std::swap(bytes_, other.bytes_);
    std::swap(account_, other.account_);
    std::swap(is_key_, other.is_key_);
  }

  MemoryAccounting* accounting_ = nullptr;
  std::size_t bytes_ = 0;
  AccountId account_{};
  bool is_key_ = false;
};

// Memory that one peer makes the process hold outside the store: bytes of a link, a TLS handshake,
// an HTTP request or its response. Charged to the peer's address, in the accounting that also
// counts store clients.
class PeerMemory {
 public:
  PeerMemory(std::shared_ptr<MemoryAccounting> accounting, const PeerAddress& peer)
      : accounting_(std::move(accounting)),
        account_(accounting_->open_connection(peer)),
        charge_(*accounting_, account_, 0) {}
  ~PeerMemory() {
    charge_ = Reservation();
    accounting_->close_connection(account_);
  }
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Charges `bytes` instead of what was charged before. Returns why it must not be that much; empty
  // if it may.
  std::string hold(std::size_t bytes) {
    const std::size_t before = std::exchange(bytes_, bytes);
    std::string objection =
        bytes > before ? accounting_->objection(account_, bytes - before) : std::string();
    charge_.resize(bytes);
    return objection;
  }

  std::size_t bytes() const { return bytes_; }
  // The same, but also returns an objection if this is not more than before and all that its
  // address holds is too much.
  std::string hold_at_all(std::size_t bytes) {
    charge_.resize(bytes_ = bytes);
    return accounting_->objection(account_, 0);
  }

 private:
  std::shared_ptr<MemoryAccounting> accounting_;
  AccountId account_;
  Reservation charge_;
  std::size_t bytes_ = 0;
};

}  // namespace cpprun
