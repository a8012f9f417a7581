// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/owner_access.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/integration/directory.h"

namespace owner_files_test {

using namespace cpprun;
using integration::Directory;

namespace {

const std::string digits = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

void put(const Directory& directory, const std::string& name, const std::string& id,
         mode_t mode = 0600) {
  const auto path = directory.write(name, "cpprun1:" + id + ":" + digits + "\n");
  REQUIRE(::chmod(path.c_str(), mode) == 0);
}

Result<OwnerFiles> read(const Directory& directory) {
  DaemonOptions options;
  options.secrets_directory = directory.path();
  return read_owner_files(options);
}

std::string refusal(const Directory& directory) {
  const auto files = read(directory);
  return files ? "taken" : files.error().reason;
}

}  // namespace

TEST_CASE("each file is named after its owner, and editor backups are ignored") {
  const Directory directory;
  put(directory, "bob", "b");
  put(directory, "alice", "a");
  put(directory, "admin", "root");
  put(directory, "bob~", "b", 0644);
  put(directory, "bob.bak", "b");
  put(directory, ".bob.swp", "b");
  const auto files = read(directory);
  REQUIRE_MESSAGE(files, files.error().reason);
  REQUIRE(files->owners.size() == 3);
  CHECK(files->owners[0].name == "admin");
  CHECK(files->owners[1].name == "alice");
  CHECK(files->owners[1].secrets.front().id == "a");
  CHECK(files->owners[2].name == "bob");
  CHECK(files->passed_over == std::vector<std::string>{".bob.swp", "bob.bak", "bob~"});
}

TEST_CASE("one invalid file rejects the whole directory") {
  const Directory directory;
  put(directory, "alice", "a");
  put(directory, "bob", "b", 0644);
  CHECK(refusal(directory).starts_with("cannot use the secret in \"" + directory.path() +
                                       "/bob\": accessible to other users (mode 0644)"));
  put(directory, "bob", "a");
  CHECK(refusal(directory).find("\"alice\" and \"bob\" have secrets with the same id \"a\"") !=
        std::string::npos);
  put(directory, "bob", "b");
  CHECK(refusal(directory) == "taken");
  put(directory, "bob smith", "c");
  CHECK(refusal(directory).find("/bob smith\": invalid owner name") != std::string::npos);
  std::filesystem::remove(directory.path() + "/bob smith");
  std::filesystem::create_directory(directory.path() + "/more");
  CHECK(refusal(directory).ends_with("/more\": a directory, not a regular file"));
}

TEST_CASE("a directory without a secret, or a missing one, is rejected") {
  const Directory directory;
  CHECK(refusal(directory) ==
        "cannot use the secrets in \"" + directory.path() +
            "\": no secret file, so no client would have access; create one with "
            "\"cpprunctl keygen " +
            directory.path() + "/NAME\"");
  put(directory, ".hidden", "a");
  CHECK(refusal(directory).find("no secret file") != std::string::npos);
  DaemonOptions options;
  options.secrets_directory = directory.path() + "/gone";
  REQUIRE_FALSE(read_owner_files(options));
  CHECK(read_owner_files(options).error().reason ==
        "cannot use the secrets in \"" + directory.path() + "/gone\": No such file or directory");
}

TEST_CASE("a directory that other users can write to is rejected with a chmod command") {
  const Directory directory;
  put(directory, "alice", "a");
  REQUIRE(::chmod(directory.path().c_str(), 0755) == 0);
  CHECK(refusal(directory) == "taken");
  REQUIRE(::chmod(directory.path().c_str(), 0770) == 0);
  CHECK(refusal(directory) == "cannot use the secrets in \"" + directory.path() +
                                  "\": writable by other users (mode 0770); chmod 700 " +
                                  directory.path());
  // As Kubernetes mounts a Secret: the sticky bit protects its files, and a new file is checked.
  REQUIRE(::chmod(directory.path().c_str(), 01777) == 0);
  CHECK(refusal(directory) == "taken");
  REQUIRE(::chmod(directory.path().c_str(), 0700) == 0);
  if (::geteuid() != 0) {
    std::puts("skipped: only root can change the owner of a directory");
    return;
  }
  REQUIRE(::chown(directory.path().c_str(), 65534, 65534) == 0);
  CHECK(refusal(directory).find("owned by uid 65534") != std::string::npos);
}

TEST_CASE("a single secret file belongs to one owner, and a daemon may have none") {
  const Directory directory;
  put(directory, "key", "a");
  DaemonOptions options;
  auto files = read_owner_files(options);
  REQUIRE(files);
  CHECK(files->owners.empty());
  options.secret_file = directory.path() + "/key";
  files = read_owner_files(options);
  REQUIRE(files);
  REQUIRE(files->owners.size() == 1);
  CHECK(files->owners.front().name == "default");
}

TEST_CASE("the user's secret file is used if it exists and no other file was given") {
  const Directory directory;
  DaemonOptions options;
  options.own_secret_file = directory.path() + "/key";
  resolve_secret_file(options);
  CHECK_FALSE(options.has_secrets());
  put(directory, "key", "a");
  resolve_secret_file(options);
  CHECK(options.secret_file == directory.path() + "/key");
  // A dangling link counts as present and is rejected when it is read.
  REQUIRE(::symlink("/nonexistent", (directory.path() + "/link").c_str()) == 0);
  DaemonOptions linked;
  linked.own_secret_file = directory.path() + "/link";
  resolve_secret_file(linked);
  CHECK(linked.has_secrets());
  CHECK_FALSE(read_owner_files(linked));
  // A path below a regular file counts as missing.
  DaemonOptions barred;
  barred.own_secret_file = directory.path() + "/key/secret";
  resolve_secret_file(barred);
  CHECK_FALSE(barred.has_secrets());
  DaemonOptions other;
  other.own_secret_file = directory.path() + "/key";
  other.secrets_directory = directory.path();
  resolve_secret_file(other);
  CHECK(other.secret_file.empty());
}

}  // namespace owner_files_test
