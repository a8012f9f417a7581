// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/failover.h"

#include <doctest/doctest.h>

#include "proto/bounds.h"

namespace places_test {

using namespace cpprun;

namespace {

const Endpoint a{"a", 1};
const Endpoint b{"b", 1};
const Endpoint c{"c", 1};
const Endpoint d{"d", 1};

using Asked = std::vector<Endpoint>;

Asked asked(EndpointRotation& places, int count) {
  Asked asked;
  for (int i = 0; i < count; ++i) {
    asked.push_back(places.next());
    CHECK(places.at() == asked.back());
  }
  return asked;
}

}  // namespace

TEST_CASE("places are asked in turns, each once, in the order in which they were named") {
  EndpointRotation places(a, {a, b, c});
  CHECK(places.several());
  CHECK(asked(places, 3) == Asked{a, b, c});
  CHECK(places.turns() == 0);
  CHECK(asked(places, 4) == Asked{a, b, c, a});
  CHECK(places.turns() == 2);
}

TEST_CASE("it is too early to ask at once when all were asked, or one that led has only broken") {
  EndpointRotation places(a, {a, b});
  places.next();
  CHECK_FALSE(places.lost(false));
  places.next();
  CHECK(places.lost(false));
  places.next();
  places.leads();
  CHECK(places.lost(false));
  CHECK(places.next() == a);
}

TEST_CASE("whoever led is asked first when its link breaks, and last when it fell silent") {
  EndpointRotation places(a, {a, b, c});
  asked(places, 2);
  places.leads();
  CHECK(places.turns() == 0);
  SUBCASE("broke") {
    CHECK(places.lost(false));
    CHECK(asked(places, 3) == Asked{b, a, c});
  }
  SUBCASE("silent") {
    CHECK_FALSE(places.lost(true));
    CHECK(asked(places, 3) == Asked{a, c, b});
  }
  SUBCASE("it has said that it led, and does not") {
    places.leads_no_more();
    CHECK_FALSE(places.lost(false));
    CHECK(asked(places, 2) == Asked{a, c});
    CHECK(places.lost(false));
  }
}

TEST_CASE("one that is said to lead is next, but no place is asked twice in a turn for it") {
  EndpointRotation places(a, {a, b, c});
  places.next();
  places.hint(c);
  CHECK(places.next() == c);
  places.hint(a);
  CHECK(places.next() == b);
  places.hint(d);
  CHECK_FALSE(places.lost(false));
  CHECK(places.next() == d);
  CHECK(places.lost(false));
}

TEST_CASE("whoever sends us on and on is not followed for ever") {
  EndpointRotation places(a, {a, b});
  places.next();
  int followed = 0;
  for (int i = 0; i < 100; ++i) {
    const Endpoint there{"x" + std::to_string(i), 1};
    places.hint(there);
    if (places.next() == there) ++followed;
  }
  CHECK(followed > 0);
  // In each turn so many at most, and the places that are known: turns have pauses between them.
  CHECK(followed <= (places.turns() + 1) * static_cast<int>(bounds::members_max));
  CHECK(places.turns() > 0);
}

TEST_CASE("one place alone becomes several when it says so, and those come before the named ones") {
  EndpointRotation places(a, {});
  CHECK_FALSE(places.several());
  places.told({c, b});
  CHECK(places.several());
  CHECK(places.all() == Asked{a, c, b});
  places.told({});
  CHECK_FALSE(places.several());
  places.hint(d);
  CHECK(places.several());
  CHECK(places.next() == d);
  EndpointRotation named(a, {a, b});
  named.told({c, a});
  CHECK(named.all() == Asked{a, c, b});
}

}  // namespace places_test
