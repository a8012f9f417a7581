// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/flags.h"

#include <doctest/doctest.h>

namespace values_test {

using namespace cpprun;

TEST_CASE("a number has bounds, and blanks and a plus sign are rejected") {
  CHECK(whole_number_within(0, 7)(" +7 ") == 7);
  CHECK(whole_number_within(0, 7)("010").error().reason ==
        "=010 is not a whole number from 0 to 7");
  CHECK(whole_number_within(0, 6)("7").error().reason == "=7 is not a whole number from 0 to 6");
  CHECK(whole_number_within(8, any_count_max)("7").error().reason ==
        "=7 is not a whole number of at least 8");
}

TEST_CASE("a name that is too long for the protocol is rejected with its length") {
  CHECK(name_within(7)("trainer") == "trainer");
  CHECK(name_within(6)("trainer").error().reason == " has 7 bytes\n  hint: use at most 6 bytes");
}

TEST_CASE("a name that other nodes would read differently is rejected") {
  CHECK(name_within(20)("trainer\u202e").error().reason ==
        "=trainer? contains unprintable characters, shown here as \"?\"\n  hint: use printable "
        "characters");
}

}  // namespace values_test
