// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/memory_accounting.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace cpprun {

namespace {

static_assert(std::endian::native == std::endian::little,
              "the hash reads words in little-endian order");

struct SipState {
  std::uint64_t a, b, c, d;

  void round() {
    a += b;
    b = std::rotl(b, 13) ^ a;
    a = std::rotl(a, 32);
    c += d;
    d = std::rotl(d, 16) ^ c;
    a += d;
    d = std::rotl(d, 21) ^ a;
    c += b;
    b = std::rotl(b, 17) ^ c;
    c = std::rotl(c, 32);
  }
};

// The bytes of the last, incomplete word: fewer than eight. Reads some of them twice, which is
// faster than a loop or a call.
inline std::uint64_t last_word(std::string_view bytes) {
  const std::size_t size = bytes.size();
  if (size >= 4) {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    std::memcpy(&low, bytes.data(), sizeof low);
    std::memcpy(&high, bytes.data() + size - sizeof high, sizeof high);
    return low | std::uint64_t{high} << (8 * (size - sizeof high));
  }
  if (size == 0) return 0;
  const auto byte = [&](std::size_t at) {
    return std::uint64_t{static_cast<std::uint8_t>(bytes[at])} << (8 * at);
  };
  return byte(0) | byte(size / 2) | byte(size - 1);
}

template <int rounds_per_word, int rounds_at_end>
std::uint64_t siphash(const HashSeed& seed, std::string_view key) {
  SipState state{seed.first ^ 0x736f6d6570736575U, seed.second ^ 0x646f72616e646f6dU,
                 seed.first ^ 0x6c7967656e657261U, seed.second ^ 0x7465646279746573U};
  const auto take = [&state](std::uint64_t word) {
    state.d ^= word;
    for (int round = 0; round < rounds_per_word; ++round) state.round();
    state.a ^= word;
  };
  const std::uint64_t length_byte = std::uint64_t{key.size() & 0xffU} << 56;
  std::uint64_t word = 0;
  for (; key.size() >= sizeof word; key.remove_prefix(sizeof word)) {
    std::memcpy(&word, key.data(), sizeof word);
    take(word);
  }
  take(last_word(key) | length_byte);
  state.c ^= 0xff;
  for (int round = 0; round < rounds_at_end; ++round) state.round();
  return state.a ^ state.b ^ state.c ^ state.d;
}

}  // namespace

std::uint64_t key_hash(const HashSeed& seed, std::string_view key) {
  return siphash<1, 3>(seed, key);
}

std::uint64_t siphash_2_4(const HashSeed& seed, std::string_view key) {
  return siphash<2, 4>(seed, key);
}

namespace {

constexpr double bytes_per_mib = 1024.0 * 1024.0;

std::string owner_text(const PeerAddress& peer) {
  const bool is_one = peer.is_ipv4() || peer.is_loopback();
  return is_one ? "its address" : "its network " + peer.source_text();
}

}  // namespace

MemoryAccounting::~MemoryAccounting() {
  tend(false);
}

// --- addresses ---------------------------------------------------------------------------------

std::string MemoryAccounting::objection_to_connection(const PeerAddress& peer) const {
  const auto found = by_source_.find(peer.source().ip);
  const std::uint64_t has = found == by_source_.end() ? 0 : accounts_[found->second].connections;
  if (has < limits_.address_connections_max) return {};
  return fmt::format("{} has reached its limit of {} connections", owner_text(peer), has);
}

AccountId MemoryAccounting::open_connection(const PeerAddress& peer) {
  const PeerAddress source = peer.source();
  const auto [place, is_new] = by_source_.try_emplace(source.ip, 0);
  if (is_new) {
    if (free_.empty()) {
      place->second = static_cast<std::uint32_t>(accounts_.size());
      accounts_.emplace_back();
    } else {
      place->second = free_.back();
      free_.pop_back();
    }
    accounts_[place->second] = {.source = source};
  }
  ++accounts_[place->second].connections;
  return AccountId{place->second};
}

void MemoryAccounting::close_connection(AccountId account) {
  if (account.value == 0) return;
  --accounts_[account.value].connections;
  close_if_empty(account);
}

// Forgets an address that has left and holds nothing: addresses come and go for years.
void MemoryAccounting::close_if_empty(AccountId account) {
  const Account& page = accounts_[account.value];
  if (account.value == 0 || page.connections + page.bytes + page.keys != 0) return;
  by_source_.erase(page.source.ip);
  free_.push_back(account.value);
}

// --- memory ------------------------------------------------------------------------------------

// The last eighth of the budget is for small allocations. Clients that fill the rest with large
// ones leave room for the counters and addresses that all other clients need to rendezvous.
std::string MemoryAccounting::explain(AccountId account, std::uint64_t bytes,
                                      std::uint64_t keys) const {
  const Account& page = accounts_[account.value];
  if (account.value != 0 && page.keys + keys > limits_.address_keys_max) {
    return fmt::format("{} holds {} of at most {} keys", owner_text(page.source), page.keys,
                       limits_.address_keys_max);
  }
  if (account.value != 0 && page.bytes + bytes > limits_.address_bytes_max) {
    return fmt::format("{} holds {:.1f} of at most {:.1f} MiB", owner_text(page.source),
                       static_cast<double>(page.bytes) / bytes_per_mib,
                       static_cast<double>(limits_.address_bytes_max) / bytes_per_mib);
  }
  return fmt::format("all clients together hold {:.1f} of at most {:.1f} MiB",
                     static_cast<double>(bytes_held_) / bytes_per_mib,
                     static_cast<double>(bytes_max_for(bytes)) / bytes_per_mib);
}

void MemoryAccounting::charge(AccountId account, std::uint64_t bytes, std::uint64_t keys) {
  bytes_held_ += bytes;
  Account& page = accounts_[account.value];
  page.bytes += bytes;
  page.keys += keys;
}

void MemoryAccounting::credit(AccountId account, std::uint64_t bytes, std::uint64_t keys) {
  bytes_held_ -= bytes;
  Account& page = accounts_[account.value];
  page.bytes -= bytes;
  page.keys -= keys;
  close_if_empty(account);
}

std::uint64_t MemoryAccounting::bytes_held_by(AccountId account) const {
  return accounts_[account.value].bytes;
}

// --- freeing -----------------------------------------------------------------------------------

void MemoryAccounting::tend(bool is_tended) {
  is_tended_ = is_tended;
  while (!is_tended_ && !deferred_.empty()) {
    const auto last = std::move(deferred_.back());
    deferred_.pop_back();
  }
}

void MemoryAccounting::free_later(std::unique_ptr<DeferredFree> remains) noexcept {
  if (!is_tended_) return;
  try {
    deferred_.push_back(std::move(remains));
  } catch (const std::bad_alloc&) {
    remains.reset();
  }
}

namespace {

// The C library keeps freed memory in a heap, and the next larger allocation, by any caller, sorts
// all of it: 40 ms after a million keys. So it is made to sort in each turn what that turn has
// freed.
void sort_freed_memory() {
  constexpr std::size_t larger_than_keys_and_values = 64 * 1024;
  // Volatile, or the compiler removes it.
  void* volatile memory = std::malloc(larger_than_keys_and_values);
  std::free(memory);
}

}  // namespace

void MemoryAccounting::free_some(std::size_t work) {
  if (deferred_.empty()) return;
  // Each object costs something, however small it is.
  constexpr std::size_t work_of_deferred = 512;
  while (work > 0 && !deferred_.empty()) {
    // Freeing one object may defer another.
    auto last = std::move(deferred_.back());
    deferred_.pop_back();
    if (!last->free_some(work)) {
      free_later(std::move(last));
      break;
    }
    work -= std::min(work, work_of_deferred);
  }
  sort_freed_memory();
}

}  // namespace cpprun
