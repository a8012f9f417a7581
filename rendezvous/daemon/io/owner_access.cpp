// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/owner_access.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>
#include <utility>

#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/secret_file.h"

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
  if (!loaded && options_.secrets_directory.empty() && is_own) {
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
    hooks_.say(LogLevel::info,
               fmt::format("ignoring \"{}/{}\": not a secret file",
                           plain_line(options_.secrets_directory), plain_line(name)));
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

namespace {

constexpr unsigned mode_bits = 07777;
constexpr unsigned write_bits_of_others = 022;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

tl::unexpected<Error> refused(const std::string& directory, std::string_view why) {
  return failure(fmt::format("cannot use the secrets in \"{}\": {}", plain_line(directory), why));
}

// Why other users could decide which clients are admitted; empty if they cannot.
std::string objection(const struct stat& directory, const std::string& path) {
  const uid_t self = ::geteuid();
  if (directory.st_uid != self && directory.st_uid != 0) {
    return fmt::format("owned by uid {}, but cpprund runs as uid {}: that user could change it",
                       directory.st_uid, self);
  }
  // In a sticky directory other users cannot replace files, and files that they add are rejected
  // because of their uid. Kubernetes mounts a Secret like that.
  if ((directory.st_mode & write_bits_of_others) != 0 && (directory.st_mode & S_ISVTX) == 0) {
    return fmt::format("writable by other users (mode {:04o}); chmod 700 {}",
                       directory.st_mode & mode_bits, plain_line(path));
  }
  return {};
}

// The sorted names in the directory, without "." and "..".
Result<std::vector<std::string>> names_in(const FileDescriptor& directory,
                                          const std::string& path) {
  const std::unique_ptr<DIR, CloseDirectory> entries(
      ::fdopendir(::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  if (entries == nullptr) return refused(path, errno_text(errno));
  std::vector<std::string> names;
  const auto next = [&entries] {
    errno = 0;  // readdir() leaves it 0 at the end
    return ::readdir(entries.get());
  };
  while (const dirent* const entry = next()) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) return refused(path, errno_text(errno));
  std::ranges::sort(names);
  return names;
}

Result<OwnerFiles> read_directory(const std::string& path) {
  const FileDescriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return refused(path, errno_text(errno));
  struct stat facts {};
  if (::fstat(directory.get(), &facts) != 0) return refused(path, errno_text(errno));
  if (const std::string why = objection(facts, path); !why.empty()) return refused(path, why);
  auto names = names_in(directory, path);
  if (!names) return tl::unexpected(std::move(names.error()));
  OwnerFiles files;
  for (auto& name : *names) {
    if (is_passed_over(name)) {
      files.passed_over.push_back(std::move(name));
      continue;
    }
    const std::string file = fmt::format("{}/{}", path, name);
    if (!is_owner_name(name)) {
      return refused(
          file, "invalid owner name; use at most 64 letters, digits, dots, dashes and underscores");
    }
    if (files.owners.size() == owners_max) {
      return refused(path, fmt::format("more than {} owners", owners_max));
    }
    auto secrets = read_secret_in(directory, name, file);
    if (!secrets) return tl::unexpected(std::move(secrets.error()));
    const bool sees_all = name == admin_name;
    files.owners.push_back(
        {.name = std::move(name), .secrets = std::move(*secrets), .sees_all = sees_all});
  }
  if (files.owners.empty()) {
    return refused(path, fmt::format("no secret file, so no client would have access; create one "
                                     "with \"cpprunctl keygen {}/NAME\"",
                                     plain_line(path)));
  }
  if (auto checked = check_owners(files.owners); !checked) {
    return refused(path, checked.error().reason);
  }
  return files;
}

}  // namespace

void resolve_secret_file(DaemonOptions& options) {
  const std::string& own = options.own_secret_file;
  // Problems with the file are reported when it is read. A daemon that cannot read a secret that
  // may exist must not open itself to all clients.
  if (!options.has_secrets() && !own.empty() && may_have_secret(own)) options.secret_file = own;
}

Result<OwnerFiles> read_owner_files(const DaemonOptions& options) {
  if (!options.secrets_directory.empty()) return read_directory(options.secrets_directory);
  OwnerFiles files;
  if (!options.secrets_in_hand.empty()) {
    files.owners.push_back({.name = std::string(only_owner_name),
                            .secrets = options.secrets_in_hand,
                            .sees_all = true});
    return files;
  }
  if (options.secret_file.empty()) return files;
  auto secrets = read_secret_file(options.secret_file);
  if (!secrets) return tl::unexpected(std::move(secrets.error()));
  files.owners.push_back(
      {.name = std::string(only_owner_name), .secrets = std::move(*secrets), .sees_all = true});
  return files;
}

}  // namespace cpprun
