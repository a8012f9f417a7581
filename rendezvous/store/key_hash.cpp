// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/key_hash.h"

#include <bit>
#include <cstring>

namespace cpprun {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie");

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
  word = 0;
  if (!key.empty()) std::memcpy(&word, key.data(), key.size());
  take(word | length_byte);
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

}  // namespace cpprun
