// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/io/door.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/integration/folder.h"

namespace door_test {

using namespace cpprun;
using cpprun::integration::Folder;
namespace fs = std::filesystem;

namespace {

FileDescriptor new_socket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

DoorFolder in(const Folder& folder) {
  return {.parent = folder.path(), .name = "cpprun-0"};
}

unsigned mode_of(const std::string& path) {
  struct stat facts {};
  REQUIRE(::lstat(path.c_str(), &facts) == 0);
  return facts.st_mode & 0777U;
}

std::string refusal(const DoorFolder& folder) {
  const auto socket = new_socket();
  const auto opened = open_door(socket.get(), folder, 1);
  REQUIRE_FALSE(opened);
  return opened.error().reason;
}

}  // namespace

TEST_CASE("a socket is made for its owner alone, is found, and somebody is behind it") {
  const Folder folder;
  const auto socket = new_socket();
  const auto path = open_door(socket.get(), in(folder), 77);
  REQUIRE(path);
  CHECK(path->ends_with("-77.sock"));
  CHECK(mode_of(*path) == 0600);
  CHECK(mode_of(in(folder).path()) == 0700);
  CHECK(doors_in(in(folder)).size() == 1);
  CHECK(probe_socket(*path).socket);
  remove_door(*path);
  CHECK_FALSE(fs::exists(in(folder).path()));
}

TEST_CASE("a path that is longer than a socket's name may be does no harm") {
  const Folder folder;
  const DoorFolder deep{.parent = folder.path() + "/" + std::string(200, 'x'), .name = "cpprun-0"};
  REQUIRE(fs::create_directory(deep.parent));
  const auto socket = new_socket();
  const auto path = open_door(socket.get(), deep, 1);
  REQUIRE(path);
  CHECK(probe_socket(*path).socket);
}

TEST_CASE("sockets behind which nobody is any more are swept, and others stay") {
  const Folder folder;
  auto gone = new_socket();
  const auto old_path = open_door(gone.get(), in(folder), 1);
  REQUIRE(old_path);
  gone.reset();
  CHECK(probe_socket(*old_path).is_stale());
  const auto stays = new_socket();
  const auto path = open_door(stays.get(), in(folder), 2);
  REQUIRE(path);
  CHECK_FALSE(fs::exists(*old_path));
  sweep_doors(in(folder));
  CHECK(fs::exists(*path));
  CHECK(doors_in(in(folder)).size() == 1);
}

TEST_CASE("what is another machine's or no socket of ours is not swept") {
  const Folder folder;
  auto gone = new_socket();
  const auto path = open_door(gone.get(), in(folder), 1);
  REQUIRE(path);
  gone.reset();
  const auto elsewhere = in(folder).path() + "/some-other-machine-1.sock";
  fs::rename(*path, elsewhere);
  sweep_doors(in(folder));
  CHECK(fs::exists(elsewhere));
}

TEST_CASE("two processes of one number get two names") {
  const Folder folder;
  const auto first = new_socket();
  const auto second = new_socket();
  const auto one = open_door(first.get(), in(folder), 1);
  const auto two = open_door(second.get(), in(folder), 1);
  REQUIRE(one);
  REQUIRE(two);
  CHECK(two->ends_with("-1-2.sock"));
  CHECK(probe_socket(*one).socket);
  CHECK(probe_socket(*two).socket);
}

TEST_CASE("a folder that is open to others, a link or no folder is refused") {
  const Folder folder;
  const std::string path = in(folder).path();
  REQUIRE(fs::create_directory(path));
  fs::permissions(path, fs::perms::all);
  CHECK(refusal(in(folder)).find("is accessible to other users (mode 777)") != std::string::npos);
  fs::remove(path);
  fs::create_directory_symlink(folder.path(), path);
  CHECK(refusal(in(folder)).ends_with("is not a directory"));
  CHECK(doors_in(in(folder)).empty());
  const DoorFolder nowhere{.parent = folder.path() + "/not-there", .name = "cpprun-0"};
  CHECK(refusal(nowhere).find("cannot be created: No such file") != std::string::npos);
}

TEST_CASE("somebody else's folder is refused, and so is their runtime folder") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can make a folder somebody else's");
    return;
  }
  const Folder folder;
  const std::string path = in(folder).path();
  REQUIRE(fs::create_directory(path));
  fs::permissions(path, fs::perms::owner_all);
  REQUIRE(::chown(path.c_str(), 65534, 65534) == 0);
  CHECK(refusal(in(folder)).find("is owned by uid 65534") != std::string::npos);
  CHECK(refusal({.parent = path, .name = "cpprun", .is_parent_own = true})
            .ends_with("is in a directory of another user"));
}

}  // namespace door_test
