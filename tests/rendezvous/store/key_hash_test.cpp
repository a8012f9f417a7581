// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/memory_accounting.h"

#include <doctest/doctest.h>

#include <string>

namespace key_hash_test {

using namespace cpprun;

namespace {

// The key of SipHash's published test vectors: the bytes 00 to 0f.
constexpr HashSeed published{0x0706050403020100, 0x0f0e0d0c0b0a0908};

std::string counting(std::size_t length) {
  std::string bytes;
  for (std::size_t at = 0; at < length; ++at) bytes.push_back(static_cast<char>(at));
  return bytes;
}

}  // namespace

TEST_CASE("SipHash matches its published test vectors") {
  CHECK(siphash_2_4(published, counting(0)) == 0x726fdb47dd0e0e31);
  CHECK(siphash_2_4(published, counting(8)) == 0x93f5f5799a932462);
  CHECK(siphash_2_4(published, counting(15)) == 0xa129ca6149be45e5);
}

TEST_CASE("the hash of a key depends on the seed, on every byte and on the length") {
  CHECK(key_hash({1, 2}, "key") == key_hash({1, 2}, "key"));
  CHECK(key_hash({1, 2}, "key") != key_hash({1, 3}, "key"));
  CHECK(key_hash({1, 2}, "key") != key_hash({1, 2}, "kez"));
  CHECK(key_hash({1, 2}, std::string(1, '\0')) != key_hash({1, 2}, std::string(2, '\0')));
}

}  // namespace key_hash_test
