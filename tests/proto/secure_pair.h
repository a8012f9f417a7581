// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Secrets for tests, and two ends of a secure channel with no network between them.

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>

#include "proto/secure/io/openssl_library.h"
#include "proto/secure/tls.h"
#include "rendezvous/io/secret_file.h"

namespace cpprun::test {

inline Secret secret_named(const std::string& id, unsigned char seed = 1) {
  const auto key = make_key_memory();
  for (std::size_t at = 0; at < key->size(); ++at) {
    (*key)[at] = static_cast<unsigned char>(seed + 7 * at);
  }
  return {id, key};
}

inline const OpenSsl& openssl() {
  static const auto opened = open_openssl();
  REQUIRE_MESSAGE(opened.has_value(), opened.error().reason);
  return *opened;
}

inline std::shared_ptr<SecureContext> client_of(Secret secret) {
  auto made = SecureContext::of_client(openssl(), std::move(secret));
  REQUIRE_MESSAGE(made.has_value(), made.error().reason);
  return *made;
}

inline std::shared_ptr<SecureContext> server_of(Secrets secrets) {
  auto made = SecureContext::of_server(openssl(), std::move(secrets));
  REQUIRE_MESSAGE(made.has_value(), made.error().reason);
  return *made;
}

// Delivers pending bytes in both directions until none are left.
inline void exchange(SecureChannel& one, SecureChannel& other) {
  while (true) {
    const std::string there = one.take_outgoing();
    const std::string back = other.take_outgoing();
    if (there.empty() && back.empty()) return;
    if (!there.empty()) other.hear(there);
    if (!back.empty()) one.hear(back);
  }
}

}  // namespace cpprun::test
