// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/io/door.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/integration/directory.h"

namespace door_test {

using namespace cpprun;
using cpprun::integration::Directory;
namespace fs = std::filesystem;

namespace {

FileDescriptor new_socket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

DoorDirectory in(const Directory& directory) {
  return {.parent = directory.path(), .name = "cpprun-0"};
}

unsigned mode_of(const std::string& path) {
  struct stat facts {};
  REQUIRE(::lstat(path.c_str(), &facts) == 0);
  return facts.st_mode & 0777U;
}

std::string refusal(const DoorDirectory& directory) {
  const auto socket = new_socket();
  const auto opened = open_door(socket.get(), directory, 1);
  REQUIRE_FALSE(opened);
  return opened.error().reason;
}

}  // namespace

TEST_CASE("a socket is created for its owner only, is found, and is connected to a process") {
  const Directory directory;
  const auto socket = new_socket();
  const auto path = open_door(socket.get(), in(directory), 77);
  REQUIRE(path);
  CHECK(path->ends_with("-77.sock"));
  CHECK(mode_of(*path) == 0600);
  CHECK(mode_of(in(directory).path()) == 0700);
  CHECK(doors_in(in(directory)).size() == 1);
  CHECK(probe_socket(*path).socket);
  remove_door(*path);
  CHECK_FALSE(fs::exists(in(directory).path()));
}

TEST_CASE("a socket works at a path that is longer than the limit for socket names") {
  const Directory directory;
  const DoorDirectory deep{.parent = directory.path() + "/" + std::string(200, 'x'),
                           .name = "cpprun-0"};
  REQUIRE(fs::create_directory(deep.parent));
  const auto socket = new_socket();
  const auto path = open_door(socket.get(), deep, 1);
  REQUIRE(path);
  CHECK(probe_socket(*path).socket);
}

TEST_CASE("sockets without a process are removed, and others stay") {
  const Directory directory;
  auto gone = new_socket();
  const auto old_path = open_door(gone.get(), in(directory), 1);
  REQUIRE(old_path);
  gone.reset();
  CHECK(probe_socket(*old_path).is_stale());
  const auto stays = new_socket();
  const auto path = open_door(stays.get(), in(directory), 2);
  REQUIRE(path);
  CHECK_FALSE(fs::exists(*old_path));
  sweep_doors(in(directory));
  CHECK(fs::exists(*path));
  CHECK(doors_in(in(directory)).size() == 1);
}

TEST_CASE("sockets of another machine, and other files, are not removed") {
  const Directory directory;
  auto gone = new_socket();
  const auto path = open_door(gone.get(), in(directory), 1);
  REQUIRE(path);
  gone.reset();
  const auto elsewhere = in(directory).path() + "/some-other-machine-1.sock";
  fs::rename(*path, elsewhere);
  sweep_doors(in(directory));
  CHECK(fs::exists(elsewhere));
}

TEST_CASE("two processes with the same pid get two names") {
  const Directory directory;
  const auto first = new_socket();
  const auto second = new_socket();
  const auto one = open_door(first.get(), in(directory), 1);
  const auto two = open_door(second.get(), in(directory), 1);
  REQUIRE(one);
  REQUIRE(two);
  CHECK(two->ends_with("-1-2.sock"));
  CHECK(probe_socket(*one).socket);
  CHECK(probe_socket(*two).socket);
}

TEST_CASE("a directory that is open to others, a link or a file is rejected") {
  const Directory directory;
  const std::string path = in(directory).path();
  REQUIRE(fs::create_directory(path));
  fs::permissions(path, fs::perms::all);
  CHECK(refusal(in(directory)).find("is accessible to other users (mode 777)") !=
        std::string::npos);
  fs::remove(path);
  fs::create_directory_symlink(directory.path(), path);
  CHECK(refusal(in(directory)).ends_with("is not a directory"));
  CHECK(doors_in(in(directory)).empty());
  const DoorDirectory nowhere{.parent = directory.path() + "/not-there", .name = "cpprun-0"};
  CHECK(refusal(nowhere).find("cannot be created: No such file") != std::string::npos);
}

TEST_CASE("a directory of another user is rejected, and so is that user's runtime directory") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can change the owner of a directory");
    return;
  }
  const Directory directory;
  const std::string path = in(directory).path();
  REQUIRE(fs::create_directory(path));
  fs::permissions(path, fs::perms::owner_all);
  REQUIRE(::chown(path.c_str(), 65534, 65534) == 0);
  CHECK(refusal(in(directory)).find("is owned by uid 65534") != std::string::npos);
  CHECK(refusal({.parent = path, .name = "cpprun", .is_parent_own = true})
            .ends_with("is in a directory of another user"));
}

}  // namespace door_test
