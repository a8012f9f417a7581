// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a request shows of a secret: "Authorization: Bearer" and a token (proto/secure/token.h).

#include <functional>
#include <string>

#include "proto/clock.h"
#include "proto/http/session.h"
#include "proto/result.h"
#include "proto/secure/tls.h"
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

// Whose a secret is, by its id.
struct Holder {
  std::string owner = {};
  bool sees_all = true;  // everybody's jobs, and not only that owner's
  friend bool operator==(const Holder&, const Holder&) = default;
};
// Where that is null, all secrets are one owner's.
using HolderOf = std::function<Holder(const std::string& secret_id)>;
Holder holder_of(const HolderOf& holder_of, const std::string& secret_id);

// Or why it is not good for that; a clause for whoever has shown it.
Result<Credential> credential_of(const http::Request& request, const SecureContext& secure,
                                 WallTime now, const HolderOf& whose = nullptr);
// Of somebody who holds the secret itself, from that address.
Credential credential_of(const std::string& secret_id, const std::string& address,
                         const HolderOf& whose);

}  // namespace cpprun
