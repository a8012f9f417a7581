// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "proto/secure/io/openssl_library.h"
#include "proto/secure/openssl.h"

namespace secure_derive_test {

using namespace cpprun;

namespace {

std::string hex(const Key& key) {
  std::string text;
  for (const unsigned char byte : key) text += fmt::format("{:02x}", byte);
  return text;
}

Key counted_key() {
  Key key;
  for (std::size_t at = 0; at < key.size(); ++at) key[at] = static_cast<unsigned char>(at);
  return key;
}

}  // namespace

// Computed with Python's hmac.new(bytes(range(32)), purpose, "sha256").
TEST_CASE("a derived key is the same as in every other implementation of HMAC-SHA256") {
  const auto openssl = open_openssl();
  REQUIRE_MESSAGE(openssl, openssl.error().reason);
  CHECK(hex(derive_key(*openssl, counted_key(), "cpprun link")) ==
        "42dde7039f0f6997bc2075e7c0e7d4ccc4c10ead27adc2edf6c9983bd4416c4d");
  CHECK(hex(derive_key(*openssl, counted_key(), "cpprun token")) ==
        "174dd90e8126b6dbf15d3eac7af2bd2a69fe8348185658621ccb7ffd43c41d36");
}

TEST_CASE("another key or another purpose results in another key") {
  const auto openssl = open_openssl();
  REQUIRE_MESSAGE(openssl, openssl.error().reason);
  const Key key = counted_key();
  Key other = key;
  other[31] ^= 1;
  CHECK(derive_key(*openssl, key, "a") == derive_key(*openssl, key, "a"));
  CHECK(derive_key(*openssl, key, "a") != derive_key(*openssl, key, "b"));
  CHECK(derive_key(*openssl, key, "a") != derive_key(*openssl, other, "a"));
  CHECK(derive_key(*openssl, key, "") != key);
}

}  // namespace secure_derive_test
