// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/admission_control.h"

#include <doctest/doctest.h>

namespace handshake_places_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint start{};

}  // namespace

TEST_CASE("a place is free again after a handshake succeeds or times out") {
  HandshakeAdmission places(2, 5s);
  const auto one = places.take(start, "10.0.0.1").id;
  const auto two = places.take(start + 1s, "10.0.0.1").id;
  CHECK(one != two);
  CHECK(places.size() == 2);
  CHECK(places.next_deadline() == start + 5s);
  places.leave(one);
  places.leave(one);
  CHECK(places.size() == 1);
  CHECK(places.next_deadline() == start + 6s);
  CHECK(places.expire(start + 6s - 1ns).empty());
  CHECK(places.expire(start + 6s) == std::vector{two});
  CHECK(places.size() == 0);
  CHECK(places.next_deadline() == std::nullopt);
}

TEST_CASE("when all places are taken, the address with the most of them gives one up") {
  HandshakeAdmission places(4, 5s);
  const auto agent = places.take(start, "10.0.0.7").id;
  const auto first = places.take(start, "10.0.0.66").id;
  const auto second = places.take(start, "10.0.0.66").id;
  CHECK(places.take(start, "10.0.0.66").evicted == std::nullopt);
  // However often it connects, it displaces itself.
  CHECK(places.take(start, "10.0.0.66").evicted == first);
  CHECK(places.take(start, "10.0.0.66").evicted == second);
  CHECK(places.size() == 4);
  // It also makes room for others.
  const auto other = places.take(start, "10.0.0.8");
  CHECK(other.evicted.has_value());
  CHECK(other.evicted != agent);
  places.leave(agent);
  places.leave(other.id);
  CHECK(places.size() == 2);
}

TEST_CASE(
    "a flood from very many addresses displaces its own oldest, whatever the order of names") {
  constexpr std::size_t most = 64;
  HandshakeAdmission places(most, 5s);
  const auto from = [](std::size_t number) { return "10.9.0." + std::to_string(number); };
  std::size_t number = 0;
  for (; number < most; ++number) places.take(start, from(number));
  // Its address sorts first.
  const auto honest = places.take(start, "10.0.0.1");
  CHECK(honest.evicted == HandshakeId{1});
  for (std::size_t more = 1; more < most; ++more, ++number) {
    CHECK(places.take(start, from(number)).evicted != honest.id);
  }
  CHECK(places.take(start, from(number)).evicted == honest.id);
}

TEST_CASE("the oldest handshake of an address is found, or of all the next to be evicted") {
  HandshakeAdmission places(8, 5s);
  CHECK_FALSE(places.oldest_of("").has_value());
  const auto first = places.take(TimePoint{}, "10.0.0.1").id;
  const auto second = places.take(TimePoint{}, "10.0.0.2").id;
  (void)places.take(TimePoint{}, "10.0.0.2");
  CHECK(places.oldest_of("10.0.0.1") == first);
  CHECK(places.oldest_of("10.0.0.2") == second);
  CHECK_FALSE(places.oldest_of("10.0.0.3").has_value());
  CHECK(places.oldest_of("") == second);
}

}  // namespace handshake_places_test
