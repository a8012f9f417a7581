// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/owner_access.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "proto/text.h"
#include "rendezvous/daemon/io/owner_files.h"

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
      // The secret was removed since the client connected.
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
    return failure(fmt::format(
        "--secrets: no secret has access to all users' jobs; add a secret file named \"{}\"",
        admin_name));
  }
  return dialing_->for_dialing();
}

OwnerReload::OwnerReload(asio::io_context& io, const DaemonOptions& options, Hooks hooks)
    : options_(options), hooks_(std::move(hooks)), hangup_(io, SIGHUP) {
  wait();
}

Result<void> OwnerReload::load() {
  if (!options_.has_secrets()) {
    if (options_.requires_secret) {
      return failure(
          "CPPRUN_REQUIRE_SECRET=1 requires a secret, and this daemon has none; create one with "
          "\"cpprunctl keygen\" and name it with --secrets or --secret-file");
    }
    if (!options_.looks_for_secret) return {};
    hooks_.say(LogLevel::info,
               "no secret: any client that reaches this port can join jobs and use their stores");
    return {};
  }
  auto loaded = read();
  // The user's own file, which no flag or variable names and which is optional.
  const bool is_own = options_.secret_file == options_.own_secret_file;
  if (!loaded && options_.secrets_folder.empty() && is_own) {
    return failure(loaded.error().reason +
                   "; to serve all clients without a secret, use --no-secret");
  }
  return loaded;
}

Result<void> OwnerReload::read() {
  // Reads in this process: a helper process would have to send the keys back, and the disk is known
  // to work, since an operator has just put the files there.
  auto files = read_owner_files(options_);
  if (!files) return tl::unexpected(std::move(files.error()));
  for (const auto& name : files->passed_over) {
    hooks_.say(LogLevel::info, fmt::format("ignoring \"{}/{}\": not a secret file",
                                           plain_line(options_.secrets_folder), plain_line(name)));
  }
  const std::string known = owners_text(files->owners);
  if (auto taken = hooks_.take(std::move(files->owners)); !taken) return taken;
  hooks_.say(LogLevel::info, "loaded the secrets of " + known);
  return {};
}

void OwnerReload::wait() {
  hangup_.async_wait([this](const asio::error_code& error, int) {
    if (error) return;
    reload();
    wait();
  });
}

void OwnerReload::reload() {
  if (!options_.has_secrets()) {
    hooks_.say(LogLevel::info,
               "SIGHUP: nothing to reload, because this daemon was started without a secret; "
               "restart it to use one");
    return;
  }
  const auto loaded = read();
  if (loaded) return;
  hooks_.say(LogLevel::error,
             fmt::format("SIGHUP: keeping the previous secrets: {}{}", loaded.error().reason,
                         options_.has_sandbox
                             ? "; if the secrets have moved to another directory, restart this "
                               "daemon (its sandbox blocks other directories)"
                             : ""));
}

}  // namespace cpprun
