// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A bearer token: the holder of a secret grants read or control access until a certain time,
// without giving away the secret.
//
//   cpprun1.ID.PURPOSE.EXPIRY[.jJOB].MAC
//
// PURPOSE is "read" or "order", EXPIRY is in seconds since 1970, JOB is a job's name, and MAC is
// the HMAC-SHA256 of everything before it; the last two are in hexadecimal digits. A token is
// parsed from its end, because an id may contain dots.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/clock.h"
#include "proto/result.h"
#include "proto/secure/openssl.h"
#include "proto/secure/secret.h"

namespace cpprun {

enum class TokenPurpose {
  read,
  control,  // includes read: a client with control access has to see the effect
};

// The content of a token.
struct TokenTerms {
  TokenPurpose purpose = TokenPurpose::read;
  std::int64_t expiry_unix_seconds = 0;  // exclusive: invalid in that second
  std::string job = {};                  // only for this job; empty: for all jobs
  friend bool operator==(const TokenTerms&, const TokenTerms&) = default;
};

// Enough for a name of bounds::job_id_bytes_max, and the longest id and number.
inline constexpr std::size_t token_bytes_max = 700;

std::string make_token(const OpenSsl& openssl, const Secret& secret, const TokenTerms& terms);

// The intended use of a token; an empty `job` means a request that concerns all jobs.
struct TokenUse {
  TokenPurpose purpose = TokenPurpose::read;
  std::string_view job = {};
};

// The terms of a token that is valid for that use now; otherwise an error that reveals nothing
// about the secret. The MAC is compared in constant time.
Result<TokenTerms> check_token(const OpenSsl& openssl, const Secrets& secrets,
                               std::string_view text, WallTime now, const TokenUse& use);

// The id of the secret that the token claims to be made with; empty: not a token.
std::string secret_id_of_token(std::string_view text);

}  // namespace cpprun
