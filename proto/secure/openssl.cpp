// SPDX-License-Identifier: BSD-3-Clause
#include "proto/secure/openssl.h"

#include <new>

namespace cpprun {

Key derive_key(const OpenSsl& openssl, const Key& key, std::string_view purpose) {
  Key derived;
  unsigned int size = 0;
  const auto* const text = reinterpret_cast<const unsigned char*>(purpose.data());
  const unsigned char* const done =
      openssl.HMAC(openssl.EVP_sha256(), key.data(), static_cast<int>(key.size()), text,
                   purpose.size(), derived.data(), &size);
  if (done == nullptr || size != derived.size()) throw std::bad_alloc();
  return derived;
}

}  // namespace cpprun
