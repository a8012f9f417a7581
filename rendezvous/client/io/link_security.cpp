// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/client/io/link_security.h"

#include "proto/secure/io/openssl_library.h"

namespace cpprun {

Result<void> LinkSecurity::open() {
  if (openssl_) return {};
  auto opened = open_openssl();
  if (!opened) return tl::unexpected<Error>(opened.error());
  openssl_ = std::make_unique<OpenSsl>(*opened);
  return {};
}

Result<std::shared_ptr<SecureContext>> LinkSecurity::for_dialing() {
  if (!has_secret() || client_) return client_;
  if (auto opened = open(); !opened) return tl::unexpected<Error>(opened.error());
  auto made = SecureContext::of_client(*openssl_, secrets_.front());
  if (made) client_ = *made;
  return made;
}

Result<std::shared_ptr<SecureContext>> LinkSecurity::for_hosting() {
  if (!has_secret()) return std::shared_ptr<SecureContext>();
  if (auto opened = open(); !opened) return tl::unexpected<Error>(opened.error());
  return SecureContext::of_server(*openssl_, secrets_);
}

}  // namespace cpprun
