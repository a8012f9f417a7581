// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A key of its own for each use of a secret: what one use gives away says nothing about another,
// nor about the secret.

#include <string_view>

#include "proto/secure/openssl.h"
#include "proto/secure/secret.h"

namespace cpprun {

// HMAC-SHA256 of `purpose` under `key`. Throws std::bad_alloc where OpenSSL has no memory for it.
Key derive_key(const OpenSsl& openssl, const Key& key, std::string_view purpose);

}  // namespace cpprun
