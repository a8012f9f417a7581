// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/credentials.h"

namespace cpprun::etcd {

std::optional<Authenticate> Credentials::needed() const {
  if (user_.empty() || is_unknown_ || !token_.empty()) return std::nullopt;
  return Authenticate{user_, password_};
}

bool Credentials::hear(const Failure& failed) {
  is_unknown_ = failed.kind == Failure::Kind::no_authentication;
  return is_unknown_;
}

bool Credentials::may_ask_again(const Failure& failed, const std::string& used) {
  if (user_.empty() || failed.kind != Failure::Kind::unauthenticated) return false;
  // Etcd may have users since, and another request may have brought a new token already.
  is_unknown_ = false;
  if (token_ == used) token_.clear();
  return true;
}

}  // namespace cpprun::etcd
