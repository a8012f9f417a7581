// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/status_access.h"

#include <doctest/doctest.h>

namespace visit_places_test {

using namespace cpprun;
using namespace std::chrono_literals;
using enum AccessLevel;

namespace {

ConnectionSlot place(AccessLevel access, bool is_idle, std::chrono::seconds since,
                     std::string source = "10.0.0.9") {
  return {access, is_idle, std::move(source), std::chrono::steady_clock::time_point{since}};
}

}  // namespace

TEST_CASE("an unauthenticated client that is being answered gives way to a client with access") {
  const std::vector taken = {place(proven, false, 1s), place(none, false, 3s),
                             place(none, false, 2s)};
  CHECK(who_gives_way(taken, proven) == 2);
  CHECK(who_gives_way(taken, admitted) == 2);
}

TEST_CASE(
    "unauthenticated clients displace each other, from the source with the most of them first") {
  const std::vector taken = {place(none, true, 1s, "10.0.0.1"), place(none, false, 2s, "10.0.0.2"),
                             place(none, true, 3s, "10.0.0.2")};
  CHECK(who_gives_way(taken, none) == 1);
  CHECK_FALSE(who_gives_way({place(admitted, true, 1s), place(proven, true, 2s)}, none));
}

TEST_CASE("among equals the longest idle client is closed") {
  const std::vector taken = {place(proven, false, 1s), place(proven, true, 3s),
                             place(proven, true, 2s)};
  CHECK(who_gives_way(taken, proven) == 2);
  CHECK_FALSE(who_gives_way({place(proven, false, 1s)}, proven));
  CHECK_FALSE(who_gives_way({place(proven, true, 1s)}, admitted));
}

TEST_CASE("an authenticated client has priority over clients admitted without a check") {
  CHECK(who_gives_way({place(admitted, false, 1s), place(proven, true, 0s)}, proven) == 0);
  CHECK_FALSE(who_gives_way({}, proven));
}

}  // namespace visit_places_test
