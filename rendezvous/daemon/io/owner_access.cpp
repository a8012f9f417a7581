// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/owner_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cpprun {

Result<void> OwnerAccess::take(Owners owners) {
  Secrets all;
  std::map<std::string, Holder> holders;
  dialing_.reset();
  for (auto& owner : owners) {
    if (owner.sees_all) dialing_ = std::make_unique<LinkSecurity>(owner.secrets);
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

bool OwnerAccess::sees_all(const std::string& owner) const {
  if (holders_.empty()) return true;
  return std::ranges::any_of(holders_, [&](const auto& each) {
    return each.second.owner == owner && each.second.sees_all;
  });
}

Result<std::shared_ptr<SecureContext>> OwnerAccess::for_dialing() const {
  if (holders_.empty()) return std::shared_ptr<SecureContext>();
  if (dialing_ == nullptr) {
    return failure(
        fmt::format("nobody of --secrets may have everybody's jobs: put a secret called "
                    "\"{}\" there",
                    admin_name));
  }
  return dialing_->for_dialing();
}

}  // namespace cpprun
