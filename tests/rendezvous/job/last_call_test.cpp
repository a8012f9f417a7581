// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/round.h"

#include <doctest/doctest.h>

namespace last_call_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};

LastCall two_to_four() {
  return LastCall{{.min = 2, .max = 4}, 30s};
}

}  // namespace

TEST_CASE(
    "a round is sealed when all nodes are present, or enough are and the settle window has ended") {
  LastCall call = two_to_four();
  CHECK_FALSE(call.may_seal(t0, 1));
  CHECK_FALSE(call.over_at());
  CHECK_FALSE(call.may_seal(t0 + 1s, 2));
  CHECK(call.over_at() == t0 + 31s);
  CHECK_FALSE(call.may_seal(t0 + 20s, 3));
  CHECK(call.may_seal(t0 + 31s, 3));
  CHECK(two_to_four().may_seal(t0, 4));
}

TEST_CASE("a round may wait longer to be sealed than a running round waits for new nodes") {
  LastCall call{{.min = 2, .max = 4}, 1s, 5s};
  CHECK_FALSE(call.may_seal(t0, 2));
  CHECK(call.over_at() == t0 + 5s);
  call.cancel();
  CHECK_FALSE(call.may_grow(t0, 2, 1));
  CHECK(call.over_at() == t0 + 1s);
  CHECK(LastCall{{.min = 2, .max = 4}, 30s, 5s}.may_seal(t0, 4));
}

TEST_CASE("a node that leaves during the settle window may end it") {
  LastCall call = two_to_four();
  call.may_seal(t0, 2);
  CHECK_FALSE(call.may_seal(t0 + 10s, 1));
  CHECK_FALSE(call.over_at());
  CHECK_FALSE(call.may_seal(t0 + 40s, 2));
  CHECK(call.over_at() == t0 + 70s);
}

TEST_CASE(
    "new nodes join together when the settle window ends, or at once when they fill the round") {
  LastCall call = two_to_four();
  CHECK_FALSE(call.may_grow(t0, 2, 1));
  CHECK(call.may_grow(t0 + 5s, 2, 2));
  CHECK(call.may_grow(t0 + 30s, 2, 1));
}

TEST_CASE("no settle window starts for nodes that find every seat taken") {
  LastCall call = two_to_four();
  CHECK_FALSE(call.may_grow(t0, 4, 3));
  CHECK_FALSE(call.over_at());
}

}  // namespace last_call_test
