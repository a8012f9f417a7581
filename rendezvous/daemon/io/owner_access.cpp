// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/owner_access.h"

#include <utility>

#include "rendezvous/client/io/link_security.h"

namespace cpprun {

Result<void> OwnerAccess::take(Owners owners) {
  Secrets all;
  std::map<std::string, Holder> holders;
  for (auto& owner : owners) {
    for (auto& secret : owner.secrets) {
      holders[secret.id] = {.owner = owner.name, .sees_all = owner.sees_all};
      all.push_back(std::move(secret));
    }
  }
  if (secure_) {
    secure_->replace(std::move(all));
  } else {
    auto secure = LinkSecurity(std::move(all)).for_hosting();
    if (!secure) return tl::unexpected<Error>(secure.error());
    secure_ = *std::move(secure);
    server_.require_secret(secure_, [this](const std::string& id) {
      const auto found = holders_.find(id);
      // Of a secret that has been taken away meanwhile.
      return found == holders_.end() ? Holder{.owner = {}, .sees_all = false} : found->second;
    });
  }
  holders_ = std::move(holders);
  server_.secrets_changed();
  return {};
}

}  // namespace cpprun
