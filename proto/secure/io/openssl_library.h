// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// This machine's OpenSSL 3, loaded on demand, and the TLS contexts of a program's links
// (LinkSecurity).

#include <memory>
#include <string_view>

#include "proto/result.h"
#include "proto/secure/openssl.h"
#include "proto/secure/secret.h"
#include "proto/secure/tls.h"

namespace cpprun {

// It stays loaded until the process exits. The error says what to install, and what `purpose` needs
// it.
Result<OpenSsl> open_openssl(std::string_view purpose = "a secret");

// The TLS contexts of a program's links. OpenSSL is loaded only if there is a secret, and a context
// is created only when asked for: each takes milliseconds, and most programs need one of the two.
class LinkSecurity {
 public:
  // `secrets` are those valid on this node. If there are none, links are not encrypted.
  explicit LinkSecurity(Secrets secrets) : secrets_(std::move(secrets)) {}

  bool has_secret() const { return !secrets_.empty(); }
  const Secrets& secrets() const { return secrets_; }
  // For outgoing links, with the first secret. Null if there is none.
  Result<std::shared_ptr<SecureContext>> for_dialing();
  // For incoming links, with any of the secrets. Null if there is none.
  Result<std::shared_ptr<SecureContext>> for_hosting();

 private:
  Result<void> open();

  Secrets secrets_;
  std::unique_ptr<OpenSsl> openssl_;  // null: not loaded yet
  std::shared_ptr<SecureContext> client_;
};

}  // namespace cpprun
