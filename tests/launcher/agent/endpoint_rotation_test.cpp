// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/failover.h"

#include <doctest/doctest.h>

#include "proto/link/bounds.h"

namespace endpoint_rotation_test {

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

TEST_CASE("endpoints are dialled in turns, each once, in the order they were given") {
  EndpointRotation places(a, {a, b, c});
  CHECK(places.several());
  CHECK(asked(places, 3) == Asked{a, b, c});
  CHECK(places.turns() == 0);
  CHECK(asked(places, 4) == Asked{a, b, c, a});
  CHECK(places.turns() == 2);
}

TEST_CASE("there is a pause once all were dialled, or when a leader's link merely broke") {
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

TEST_CASE("the last leader is dialled first when its link breaks, and last when it was silent") {
  EndpointRotation places(a, {a, b, c});
  asked(places, 2);
  places.leads();
  CHECK(places.turns() == 0);
  SUBCASE("its link broke") {
    CHECK(places.lost(false));
    CHECK(asked(places, 3) == Asked{b, a, c});
  }
  SUBCASE("it was silent") {
    CHECK_FALSE(places.lost(true));
    CHECK(asked(places, 3) == Asked{a, c, b});
  }
  SUBCASE("it answered that it lost leadership") {
    places.leads_no_more();
    CHECK_FALSE(places.lost(false));
    CHECK(asked(places, 2) == Asked{a, c});
    CHECK(places.lost(false));
  }
}

TEST_CASE("a hinted leader is dialled next, but no endpoint twice in a turn") {
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

TEST_CASE("an endless chain of hints is not followed for ever") {
  EndpointRotation places(a, {a, b});
  places.next();
  int followed = 0;
  for (int i = 0; i < 100; ++i) {
    const Endpoint there{"x" + std::to_string(i), 1};
    places.hint(there);
    if (places.next() == there) ++followed;
  }
  CHECK(followed > 0);
  // Each turn follows a limited number and the known endpoints: turns have pauses between them.
  CHECK(followed <= (places.turns() + 1) * static_cast<int>(bounds::members_max));
  CHECK(places.turns() > 0);
}

TEST_CASE("one endpoint becomes several when it lists them, and those come before the given ones") {
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

}  // namespace endpoint_rotation_test
