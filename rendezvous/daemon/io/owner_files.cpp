// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/owner_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
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
namespace {

constexpr unsigned mode_bits = 07777;
constexpr unsigned write_bits_of_others = 022;

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

tl::unexpected<Error> refused(const std::string& folder, std::string_view why) {
  return failure(fmt::format("cannot use the secrets in \"{}\": {}", plain_line(folder), why));
}

// Why other users could decide which clients are admitted; empty if they cannot.
std::string objection(const struct stat& folder, const std::string& path) {
  const uid_t self = ::geteuid();
  if (folder.st_uid != self && folder.st_uid != 0) {
    return fmt::format("owned by uid {}, who could change it, and cpprund runs as uid {}",
                       folder.st_uid, self);
  }
  // In a sticky directory other users cannot replace files, and files that they add are rejected
  // because of their uid. Kubernetes mounts a Secret like that.
  if ((folder.st_mode & write_bits_of_others) != 0 && (folder.st_mode & S_ISVTX) == 0) {
    return fmt::format("writable by other users (mode {:04o}); chmod 700 {}",
                       folder.st_mode & mode_bits, plain_line(path));
  }
  return {};
}

// The sorted names in the directory, without "." and "..".
Result<std::vector<std::string>> names_in(const FileDescriptor& folder, const std::string& path) {
  const std::unique_ptr<DIR, CloseFolder> entries(
      ::fdopendir(::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
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

Result<OwnerFiles> read_folder(const std::string& path) {
  const FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return refused(path, errno_text(errno));
  struct stat facts {};
  if (::fstat(folder.get(), &facts) != 0) return refused(path, errno_text(errno));
  if (const std::string why = objection(facts, path); !why.empty()) return refused(path, why);
  auto names = names_in(folder, path);
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
    auto secrets = read_secret_in(folder, name, file);
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

void settle_secret_file(DaemonOptions& options) {
  const std::string& own = options.own_secret_file;
  // Problems with the file are reported when it is read. A daemon that cannot read a secret that
  // may exist must not open itself to all clients.
  if (!options.has_secrets() && !own.empty() && may_have_secret(own)) options.secret_file = own;
}

Result<OwnerFiles> read_owner_files(const DaemonOptions& options) {
  if (!options.secrets_folder.empty()) return read_folder(options.secrets_folder);
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
