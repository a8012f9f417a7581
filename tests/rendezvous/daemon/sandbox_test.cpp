// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/service.h"

#include <doctest/doctest.h>

namespace sandbox_test {

using namespace cpprun;

TEST_CASE("each kernel is asked only for the rights that it knows") {
  CHECK(sandbox_rules(1, {}).files == 0x1fff);
  CHECK(sandbox_rules(2, {}).files == 0x3fff);
  CHECK(sandbox_rules(3, {}).files == 0x7fff);
  CHECK(sandbox_rules(3, {}).ports == 0);
  CHECK(sandbox_rules(4, {}).files == 0x7fff);
  CHECK(sandbox_rules(4, {}).ports == 3);
  CHECK(sandbox_rules(4, {.connects = true}).ports == landlock::bind_tcp);
  CHECK(sandbox_rules(5, {}).files == 0xffff);
  CHECK(sandbox_rules(5, {}).scopes == 0);
  CHECK(sandbox_rules(6, {}).scopes == 3);
  // A future kernel is asked for the rights of the latest known version.
  CHECK(sandbox_rules(99, {}).files == 0xffff);
  CHECK(sandbox_rules(99, {}).ports == 3);
}

TEST_CASE("only /dev/null and the requested paths stay accessible") {
  CHECK(sandbox_rules(7, {}).paths ==
        std::vector<SandboxRules::Path>{{"/dev/null", landlock::read_file | landlock::write_file}});
  const auto rules =
      sandbox_rules(7, {.readable = {"/etc/cpprun/secrets"},
                        .door = DoorDirectory{.parent = "/run/user/7", .name = "x"}});
  REQUIRE(rules.paths.size() == 4);
  CHECK(rules.paths[1] ==
        SandboxRules::Path{"/etc/cpprun/secrets", landlock::read_file | landlock::read_dir});
  CHECK(rules.paths[2] == SandboxRules::Path{"/run/user/7", landlock::remove_dir});
  CHECK(rules.paths[3] ==
        SandboxRules::Path{"/run/user/7/x",
                           landlock::read_dir | landlock::make_sock | landlock::remove_file,
                           false});
}

TEST_CASE("every right that a rule grants was restricted before") {
  for (int version = 1; version <= 8; ++version) {
    const auto rules = sandbox_rules(
        version, {.readable = {"/a"}, .door = DoorDirectory{.parent = "/run", .name = "b"}});
    for (const auto& path : rules.paths) CHECK((path.rights & ~rules.files) == 0);
  }
}

TEST_CASE("the log lists exactly the restrictions that are in force") {
  const SandboxWants tools{.door = DoorDirectory{.parent = "/run", .name = "b"}};
  const SandboxWants all{.readable = {"/a", "/b"}, .door = tools.door};
  CHECK(sandbox_line({.version = 7, .no_privileges = true, .no_dumps = true}, tools) ==
        "sandbox: no file access except the control socket, no outgoing TCP connections, no fixed "
        "ports, no "
        "signals to other programs, no new privileges, no core dumps");
  CHECK(sandbox_line({.version = 7}, {.connects = true}) ==
        "sandbox: no file access, no fixed ports, no signals to other programs");
  CHECK(sandbox_line({.version = 3, .no_privileges = true}, {}) ==
        "sandbox: no file access, no new privileges");
  CHECK(sandbox_line({.version = 3}, all) ==
        "sandbox: no file access except the control socket and /a, /b (read only)");
  CHECK(sandbox_line({.version = 1}, {.readable = {"/a"}}) ==
        "sandbox: no file access except /a (read only)");
  CHECK(sandbox_line({.no_privileges = true, .no_dumps = true}, tools) ==
        "sandbox: no new privileges, no core dumps");
  CHECK(sandbox_line({}, tools) == "sandbox: not available");
}

}  // namespace sandbox_test
