// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/door_places.h"

#include <doctest/doctest.h>

namespace door_places_test {

using namespace cpprun;

TEST_CASE("a socket is in the user's runtime directory, or in a directory for temporary files") {
  const auto both =
      own_door_directories({{"XDG_RUNTIME_DIR", "/run/user/7"}, {"TMPDIR", "/scratch"}}, 7);
  REQUIRE(both.size() == 3);
  CHECK(both[0].path() == "/run/user/7/cpprun");
  CHECK(both[0].is_at_hand());
  CHECK(both[0].is_parent_own);
  CHECK(both[1].path() == "/scratch/cpprun-7");
  CHECK_FALSE(both[1].is_at_hand());
  CHECK(both[2].path() == "/tmp/cpprun-7");  // without /scratch
  const auto bare = own_door_directories({}, 0);
  REQUIRE(bare.size() == 1);
  CHECK(bare[0].path() == "/tmp/cpprun-0");
}

TEST_CASE("a relative directory is ignored") {
  const auto directories = own_door_directories({{"XDG_RUNTIME_DIR", "run"}, {"TMPDIR", "tmp"}}, 1);
  REQUIRE(directories.size() == 1);
  CHECK(directories[0].path() == "/tmp/cpprun-1");
}

TEST_CASE("sockets are also looked up where programs with another environment create them") {
  const auto directories = searched_door_directories({{"TMPDIR", "/scratch"}}, 5);
  REQUIRE(directories.size() == 3);
  CHECK(directories[0].path() == "/scratch/cpprun-5");
  CHECK(directories[1].path() == "/tmp/cpprun-5");
  CHECK(directories[2].path() == "/run/user/5/cpprun");
  CHECK(searched_door_directories({}, 5).size() == 2);
}

TEST_CASE("the sockets of all users are found by the names of their directories") {
  const auto directories = door_directories_of_all({}, {"1", "2"}, {"x", "cpprun-3", "cpprun_3"});
  REQUIRE(directories.size() == 3);
  CHECK(directories[1].path() == "/run/user/2/cpprun");
  CHECK(directories[2].path() == "/tmp/cpprun-3");
}

TEST_CASE("a socket's name contains the machine and the process") {
  CHECK(door_name("node-1", 77, 1) == "node-1-77.sock");
  CHECK(door_name("node-1", 77, 2) == "node-1-77-2.sock");
  CHECK(door_name("a/b", 1, 1) == "a_b-1.sock");
  CHECK(is_door("node-1-77.sock"));
  CHECK_FALSE(is_door(".node-1-77.sock.new"));
  CHECK_FALSE(is_door(".sock"));
}

TEST_CASE("a machine's sockets are distinguished from those of a name with the same prefix") {
  CHECK(is_door_of("node-77.sock", "node"));
  CHECK(is_door_of("node-77-2.sock", "node"));
  CHECK_FALSE(is_door_of("node-a-77.sock", "node"));
  CHECK_FALSE(is_door_of("node-77-2-3.sock", "node"));
  CHECK_FALSE(is_door_of("node-.sock", "node"));
  CHECK_FALSE(is_door_of("nodes-1.sock", "node"));
}

}  // namespace door_places_test
