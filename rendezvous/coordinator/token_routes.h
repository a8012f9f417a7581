// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a request shows of a secret: "Authorization: Bearer" and a token (proto/secure/token.h).

#include "proto/clock.h"
#include "proto/http/session.h"
#include "proto/result.h"
#include "proto/secure/secure_channel.h"
#include "proto/secure/token.h"
#include "rendezvous/status/status_access.h"

namespace cpprun {

// What a token has to be good for so that its holder may ask that. A path of one job is about that
// job; all others are about all jobs.
struct WantedToken {
  TokenPurpose purpose = TokenPurpose::read;
  std::string job = {};
  friend bool operator==(const WantedToken&, const WantedToken&) = default;
};
WantedToken token_wanted_for(const http::Request& request);

// Or why it is not good for that; a clause for whoever has shown it.
Result<Credential> credential_of(const http::Request& request, const SecureContext& secure,
                                 WallTime now);

}  // namespace cpprun
