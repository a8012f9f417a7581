// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What keygen calls a secret, and what it says of one.

#include <array>
#include <string>
#include <string_view>

#include "proto/clock.h"
#include "proto/secure/secret.h"

namespace cpprun {

using IdBytes = std::array<unsigned char, 6>;

// "20261123-k3v9qd": the day, in universal time, and as many letters as keep two of a day apart.
std::string secret_id(WallTime now, const IdBytes& random);

// What was made where, and what is to be done with it.
std::string made_text(std::string_view id, std::string_view path);
// The same where it was put before one that is still there.
std::string added_text(std::string_view id, std::string_view path, std::string_view old_id);

// A file of these, in this order. Its text is the caller's to wipe; no copy of it is left.
std::string secrets_text(const Secrets& secrets);

}  // namespace cpprun
