// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A bearer token: who holds a secret lets somebody else read, or give orders, until a time, and
// need not hand over the secret for it.
//
//   cpprun1.ID.PURPOSE.EXPIRY[.jJOB].MAC
//
// PURPOSE is "read" or "order", EXPIRY counts seconds since 1970, JOB is a job's name and MAC the
// HMAC-SHA256 of everything before it, both in hexadecimal digits. It is read from its end, because
// an id may have dots.

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
  order,  // and read: who gives orders has to see what they do
};

// What a token says.
struct TokenTerms {
  TokenPurpose purpose = TokenPurpose::read;
  std::int64_t expiry_unix_seconds = 0;  // valid until then, and not in that second
  std::string job = {};                  // for this one alone; empty: for all of them
  friend bool operator==(const TokenTerms&, const TokenTerms&) = default;
};

// A name of bounds::job_id_bytes_max, an id and a number as long as they get.
inline constexpr std::size_t token_bytes_max = 700;

std::string make_token(const OpenSsl& openssl, const Secret& secret, const TokenTerms& terms);

// What is wanted with a token; an empty `job` stands for what concerns all jobs.
struct TokenUse {
  TokenPurpose purpose = TokenPurpose::read;
  std::string_view job = {};
};

// The terms of a token that is good for it now; or why it is not, which tells nothing about the
// secret. Whether the MAC is right takes the same time wherever it is wrong.
Result<TokenTerms> check_token(const OpenSsl& openssl, const Secrets& secrets,
                               std::string_view text, WallTime now, const TokenUse& use);

// The id of the secret that a token was made with, as it says; empty: it is no token.
std::string secret_id_of_token(std::string_view text);

}  // namespace cpprun
