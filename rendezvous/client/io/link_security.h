// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a secret makes of a program's links. OpenSSL is opened and set up here, and only where there
// is a secret: each of the two settings takes milliseconds, and most programs need one of them.

#include <memory>

#include "proto/result.h"
#include "proto/secure/openssl.h"
#include "proto/secure/secret.h"
#include "proto/secure/tls.h"

namespace cpprun {

class LinkSecurity {
 public:
  // Of those that are valid here; none: links are as they were.
  explicit LinkSecurity(Secrets secrets) : secrets_(std::move(secrets)) {}

  bool has_secret() const { return !secrets_.empty(); }
  // For the links that it begins, with the first of its secrets; null where it has none.
  Result<std::shared_ptr<SecureContext>> for_dialing();
  // For those that it answers, with any of them.
  Result<std::shared_ptr<SecureContext>> for_hosting();

 private:
  Result<void> open();

  Secrets secrets_;
  std::unique_ptr<OpenSsl> openssl_;  // null: not opened yet
  std::shared_ptr<SecureContext> client_;
};

}  // namespace cpprun
