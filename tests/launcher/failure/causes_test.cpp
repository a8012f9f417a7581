// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/causes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>

namespace causes_test {

using namespace cpprun;

TEST_CASE("every cause has an id of its own, a clause for a sentence and advice") {
  std::set<std::string_view> ids;
  for (const Cause& each : causes()) {
    CAPTURE(each.id);
    CHECK(ids.insert(each.id).second);
    const bool plain = std::all_of(each.id.begin(), each.id.end(), [](unsigned char c) {
      return std::islower(c) != 0 || c == '_';
    });
    CHECK(plain);
    CHECK_FALSE(each.sentence.empty());
    CHECK_FALSE(each.sentence.ends_with('.'));
    CHECK_FALSE(each.advice.empty());
    CHECK_FALSE(each.advice.ends_with('.'));
  }
}

TEST_CASE("a cause is found by its id, and an unknown id is not") {
  REQUIRE(find_cause("out_of_memory") != nullptr);
  CHECK(find_cause("out_of_memory")->consequence == false);
  CHECK(find_cause("peer_gone")->consequence);
  CHECK(find_cause("of a newer cpprun") == nullptr);
  CHECK(find_cause("") == nullptr);
}

}  // namespace causes_test
