// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/owners.h"

#include <doctest/doctest.h>

namespace owners_test {

using namespace cpprun;

namespace {

Owner owner(const std::string& name, const std::vector<std::string>& ids) {
  Owner made{.name = name, .secrets = {}};
  for (const auto& id : ids) made.secrets.push_back({.id = id, .key = nullptr});
  return made;
}

}  // namespace

TEST_CASE("a file is named after its owner") {
  CHECK(is_owner_name("alice"));
  CHECK(is_owner_name("team-7.b_c"));
  CHECK_FALSE(is_owner_name(""));
  CHECK_FALSE(is_owner_name("alice smith"));
  CHECK_FALSE(is_owner_name("alice\n"));
  CHECK_FALSE(is_owner_name(std::string(65, 'a')));
}

TEST_CASE("editor backups have no owner") {
  CHECK(is_passed_over(".alice.swp"));
  CHECK(is_passed_over(".alice.new"));
  CHECK(is_passed_over("alice~"));
  CHECK(is_passed_over("alice.bak"));
  CHECK_FALSE(is_passed_over("alice"));
  CHECK_FALSE(is_passed_over("bakery"));
}

TEST_CASE("two owners with the same secret id are rejected, and both are named") {
  CHECK(check_owners({}));
  CHECK(check_owners({owner("alice", {"a", "b"}), owner("bob", {"c"})}));
  const auto checked = check_owners({owner("alice", {"a", "b"}), owner("bob", {"c", "b"})});
  REQUIRE_FALSE(checked);
  CHECK(checked.error().reason.starts_with(
      "\"alice\" and \"bob\" have secrets with the same id \"b\"; "));
}

TEST_CASE("a few owners are listed by name, the rest is counted") {
  CHECK(owners_text({owner("alice", {"a"}), owner("bob", {"b", "c"})}) == "alice, bob (2 secrets)");
  Owners many;
  for (int n = 0; n < 10; ++n) many.push_back(owner(std::to_string(n), {std::to_string(n)}));
  CHECK(owners_text(many) == "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}

}  // namespace owners_test
