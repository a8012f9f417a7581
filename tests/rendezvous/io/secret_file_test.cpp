// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/secret_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include "tests/integration/directory.h"

namespace secret_file_test {

using namespace cpprun;
using integration::Directory;

namespace {

constexpr uid_t other_user = 65534;

const std::string digits = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const std::string line = "cpprun1:tonight:" + digits + "\n";

std::string secret_in(const Directory& directory, const std::string& name = "secret",
                      const std::string& text = line, mode_t mode = 0600) {
  std::string path = directory.write(name, text);
  REQUIRE(::chmod(path.c_str(), mode) == 0);
  return path;
}

// Why it is rejected; no message ever contains the content of the file.
std::string refusal(const std::string& path) {
  const auto read = read_secret_file(path);
  if (read) return "taken";
  CHECK(read.error().reason.find(digits.substr(2, 8)) == std::string::npos);
  const std::string begin = "cannot use the secret in \"" + path + "\": ";
  REQUIRE(read.error().reason.starts_with(begin));
  return read.error().reason.substr(begin.size());
}

bool is_root() {
  if (::geteuid() == 0) return true;
  std::puts("skipped: only root can change the owner of a file");
  return false;
}

}  // namespace

TEST_CASE("a file that only its owner can read is accepted") {
  const Directory directory;
  const auto secrets = read_secret_file(secret_in(directory));
  REQUIRE_MESSAGE(secrets, secrets.error().reason);
  REQUIRE(secrets->size() == 1);
  CHECK(secrets->front().id == "tonight");
  CHECK((*secrets->front().key)[31] == 0x1f);
  CHECK(refusal(secret_in(directory, "readable", line, 0400)) == "taken");
}

TEST_CASE("a file that others can access is rejected with the command that fixes it") {
  const Directory directory;
  const auto path = secret_in(directory, "secret", line, 0640);
  CHECK(refusal(path) == "accessible to other users (mode 0640); chmod 600 " + path);
  for (const mode_t mode : {0604, 0620, 0602, 0610, 0601}) {
    CHECK(::chmod(path.c_str(), mode) == 0);
    CHECK(refusal(path).starts_with("accessible to other users"));
  }
}

TEST_CASE("a path that is not a regular file is rejected without blocking") {
  const Directory directory;
  const std::string pipe = directory.path() + "/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(refusal(pipe) == "a pipe, not a regular file");
  CHECK(refusal(directory.path()) == "a directory, not a regular file");
  CHECK(refusal(directory.path() + "/") == "a directory, not a regular file");
  CHECK(refusal("/dev/null") == "a device, not a regular file");
  const std::string socket = directory.path() + "/socket";
  const FileDescriptor server(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket.c_str(), socket.size() + 1);
  REQUIRE(::bind(server.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  CHECK(refusal(socket) == "a socket, not a regular file");
}

TEST_CASE("a link on the path to the file is followed, as for mounted volumes") {
  const Directory directory;
  std::filesystem::create_directory(directory.path() + "/now");
  secret_in(directory, "now/secret");
  std::filesystem::create_symlink("now", directory.path() + "/data");
  CHECK(refusal(directory.path() + "/data/secret") == "taken");
}

TEST_CASE("a file of a mounted Kubernetes Secret is read through its links") {
  const Directory directory;
  const std::string volume = directory.path() + "/volume";
  std::filesystem::create_directories(volume + "/..2026_11_26");
  secret_in(directory, "volume/..2026_11_26/secret", line, 0400);
  REQUIRE(::chmod(volume.c_str(), 01777) == 0);
  std::filesystem::create_symlink("..2026_11_26", volume + "/..data");
  std::filesystem::create_symlink("..data/secret", volume + "/secret");
  CHECK(refusal(volume + "/secret") == "taken");
  // The target of the links is checked like any file.
  REQUIRE(::chmod((volume + "/..data/secret").c_str(), 0440) == 0);
  CHECK(refusal(volume + "/secret").starts_with("accessible to other users (mode 0440)"));
  std::filesystem::create_symlink(volume + "/secret", directory.path() + "/absolute");
  REQUIRE(::chmod((volume + "/..data/secret").c_str(), 0600) == 0);
  CHECK(refusal(directory.path() + "/absolute") == "taken");
  std::filesystem::create_symlink("volume/../volume/./..data", directory.path() + "/way");
  std::filesystem::create_symlink("way/secret", directory.path() + "/long");
  CHECK(refusal(directory.path() + "/long") == "taken");
}

TEST_CASE("a link is rejected if others could redirect it, or if it is dangling") {
  const Directory directory;
  secret_in(directory);
  const std::string open = directory.path() + "/open";
  std::filesystem::create_directory(open);
  std::filesystem::create_symlink("../secret", open + "/link");
  std::filesystem::create_symlink("open/link", directory.path() + "/far");
  CHECK(refusal(directory.path() + "/far") == "taken");
  REQUIRE(::chmod(open.c_str(), 0770) == 0);
  const std::string why = "its directory \"" + open + "\" is writable by other users (mode 0770)";
  CHECK(refusal(open + "/link") == why);
  CHECK(refusal(directory.path() + "/far") == why);
  std::filesystem::create_symlink("circle", directory.path() + "/circle");
  CHECK(refusal(directory.path() + "/circle") == "Too many levels of symbolic links");
  std::filesystem::create_symlink("gone", directory.path() + "/nowhere");
  CHECK(refusal(directory.path() + "/nowhere") ==
        "a symbolic link to \"" + directory.path() + "/gone\", which does not exist");
  CHECK(may_have_secret(directory.path() + "/nowhere"));
  std::filesystem::create_symlink(".", directory.path() + "/here");
  CHECK(refusal(directory.path() + "/here") == "a link to a directory, not to a regular file");
  std::filesystem::create_symlink("/dev/null", directory.path() + "/device");
  CHECK(refusal(directory.path() + "/device") == "a device, not a regular file");
}

TEST_CASE("a link or a parent directory of another user is rejected") {
  if (!is_root()) return;
  const Directory directory;
  secret_in(directory);
  const std::string link = directory.path() + "/link";
  std::filesystem::create_symlink("secret", link);
  REQUIRE(::lchown(link.c_str(), other_user, other_user) == 0);
  CHECK(refusal(link) ==
        "a symbolic link in its path is owned by uid 65534: that user could change it");
  const std::string theirs = directory.path() + "/theirs";
  std::filesystem::create_directory(theirs);
  std::filesystem::create_symlink("../secret", theirs + "/link");
  REQUIRE(::chown(theirs.c_str(), other_user, other_user) == 0);
  CHECK(refusal(theirs + "/link") ==
        "its directory \"" + theirs + "\" is owned by uid 65534: that user could change it");
}

TEST_CASE(
    "a file that root gave to a group of this user is accepted unless the group can write it") {
  if (!is_root()) return;
  const Directory directory;
  REQUIRE(::chmod(directory.path().c_str(), 0755) == 0);
  const auto path = secret_in(directory, "secret", line, 0440);
  REQUIRE(::chown(path.c_str(), 0, other_user) == 0);
  const auto as_other_user = [&] {
    REQUIRE(::setegid(other_user) == 0);
    REQUIRE(::seteuid(other_user) == 0);
    const std::string why = refusal(path);
    REQUIRE(::seteuid(0) == 0);
    REQUIRE(::setegid(0) == 0);
    return why;
  };
  CHECK(as_other_user() == "taken");
  REQUIRE(::chmod(path.c_str(), 0460) == 0);
  CHECK(as_other_user().starts_with("accessible to other users (mode 0460)"));
  REQUIRE(::chmod(path.c_str(), 0444) == 0);
  CHECK(as_other_user().starts_with("accessible to other users (mode 0444)"));
}

TEST_CASE("the file must contain secrets, and only a few") {
  const Directory directory;
  CHECK(refusal(secret_in(directory, "empty", "")) == "no secret found");
  CHECK(refusal(secret_in(directory, "nothing", std::string(64, '\0'))) ==
        "line 1 is not a cpprun secret; expected cpprun1:ID:KEY, where KEY is 64 hexadecimal "
        "digits");
  CHECK(refusal(secret_in(directory, "zeros", "cpprun1:a:" + std::string(64, '0'))) ==
        "line 1 has a key of one repeated byte");
  CHECK(refusal(secret_in(directory, "words", "hunter2 " + digits)) ==
        "line 1 is not a cpprun secret; expected cpprun1:ID:KEY, where KEY is 64 hexadecimal "
        "digits");
  CHECK(refusal(secret_in(directory, "large", std::string(16385, '\n'))) ==
        "16385 bytes, and a secret file has at most 16384; check the path");
  CHECK(refusal(secret_in(directory, "full", std::string(16384 - line.size(), '\n') + line)) ==
        "taken");
}

TEST_CASE("a file without a known size is read up to the limit") {
  // Files of /proc have no size, and this one belongs to root or to this user.
  CHECK(refusal("/proc/self/maps").starts_with("accessible to other users"));
  CHECK(refusal("/proc/self/environ") != "taken");
}

TEST_CASE("a missing file is rejected with the command that creates one") {
  const Directory directory;
  const std::string path = directory.path() + "/gone";
  CHECK(refusal(path) == "No such file or directory; create it with \"cpprunctl keygen " + path +
                             "\" and copy it to every node");
  CHECK(refusal(directory.path() + "/no/secret").starts_with("No such file or directory; "));
}

TEST_CASE("a directory writable by all users is rejected unless it is sticky") {
  const Directory directory;
  const std::string place = directory.path() + "/open";
  std::filesystem::create_directory(place);
  const auto path = secret_in(directory, "open/secret");
  REQUIRE(::chmod(place.c_str(), 0777) == 0);
  CHECK(refusal(path) ==
        "its directory is writable by all users (mode 0777); chmod o-w " + place + "/");
  REQUIRE(::chmod(place.c_str(), 01777) == 0);
  CHECK(refusal(path) == "taken");
  REQUIRE(::chmod(place.c_str(), 0755) == 0);
  CHECK(refusal(path) == "taken");
}

TEST_CASE("a file of another user is rejected") {
  if (!is_root()) return;
  const Directory directory;
  const auto path = secret_in(directory);
  REQUIRE(::chown(path.c_str(), other_user, other_user) == 0);
  CHECK(refusal(path) ==
        "owned by uid 65534, but this program runs as uid 0: that user could change it; use a file "
        "that is owned by you or by root");
}

TEST_CASE("an unreadable file is rejected with the user who must be able to read it") {
  if (!is_root()) return;
  const Directory directory;
  REQUIRE(::chmod(directory.path().c_str(), 0755) == 0);
  const auto of_root = secret_in(directory);
  const auto own = secret_in(directory, "own");
  REQUIRE(::chown(own.c_str(), other_user, other_user) == 0);
  REQUIRE(::seteuid(other_user) == 0);
  const std::string why = refusal(of_root);
  const std::string taken = refusal(own);
  REQUIRE(::seteuid(0) == 0);
  CHECK(why == "Permission denied; make it readable for uid 65534");
  CHECK(taken == "taken");
}

TEST_CASE("the user's default file is used if it exists, and required if it was named") {
  const Directory directory;
  const Environment environment{{"XDG_CONFIG_HOME", directory.path()}};
  auto found = find_secrets("", environment);
  REQUIRE(found);
  CHECK(found->empty());
  std::filesystem::create_directory(directory.path() + "/cpprun");
  found = find_secrets("", environment);
  REQUIRE(found);
  CHECK(found->empty());
  const auto path = secret_in(directory, "cpprun/secret");
  found = find_secrets("", environment);
  REQUIRE(found);
  CHECK(found->size() == 1);
  CHECK_FALSE(find_secrets(directory.path() + "/gone", environment));
  CHECK_FALSE(find_secrets("", {{"CPPRUN_SECRET_FILE", directory.path() + "/gone"}}));
  REQUIRE(::chmod(path.c_str(), 0644) == 0);
  CHECK_FALSE(find_secrets("", environment));
  found = find_secrets("", {});
  REQUIRE(found);
  CHECK(found->empty());
}

TEST_CASE("another user's inaccessible configuration is treated as no secret") {
  if (!is_root()) return;
  const Directory directory;  // mode 0700, of root
  std::filesystem::create_directory(directory.path() + "/cpprun");
  secret_in(directory, "cpprun/secret");
  const Environment environment{{"XDG_CONFIG_HOME", directory.path()}};
  REQUIRE(::seteuid(other_user) == 0);
  const auto found = find_secrets("", environment);
  const auto named = find_secrets(directory.path() + "/cpprun/secret", environment);
  REQUIRE(::seteuid(0) == 0);
  REQUIRE(found);
  CHECK(found->empty());
  REQUIRE_FALSE(named);
  CHECK(named.error().reason.ends_with("Permission denied; make it readable for uid 65534"));
}

TEST_CASE("a dash reads standard input to its end") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(::write(ends[1], line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  ::close(ends[1]);
  const int before = ::dup(STDIN_FILENO);
  ::dup2(ends[0], STDIN_FILENO);
  ::close(ends[0]);
  const auto read = find_secrets("-", {});
  const auto again = find_secrets("-", {});  // already read to the end
  ::dup2(before, STDIN_FILENO);
  ::close(before);
  REQUIRE(read);
  CHECK(read->size() == 1);
  REQUIRE_FALSE(again);
  CHECK(again.error().reason.starts_with("cannot use the secret in \"standard input\": "));
}

}  // namespace secret_file_test
