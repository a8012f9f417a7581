// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// SipHash: a hash of a key that only who knows the seed can foresee. Keys come from strangers; with
// a hash that everybody knows, they would choose keys that all fall into one bucket.

#include <cstdint>
#include <string_view>

namespace cpprun {

struct HashSeed {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
};

// With one round a word and three at the end: what hash tables use.
std::uint64_t key_hash(const HashSeed& seed, std::string_view key);
// With two and four, as published; its test vectors vouch for both.
std::uint64_t siphash_2_4(const HashSeed& seed, std::string_view key);

}  // namespace cpprun
