// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/event_ring.h"

#include <doctest/doctest.h>

using namespace cpprun;

TEST_CASE("an event is told to those who watch as it is to those who come later") {
  EventRing ring;
  const auto told = ring.add("{\"event\":\"a\"}\n");
  CHECK(told == "id: 1\ndata: {\"event\":\"a\"}\n\n");
  CHECK(ring.since(0) == told);
  CHECK(ring.add("{}") == "id: 2\ndata: {}\n\n");
  CHECK(ring.since(1) == "id: 2\ndata: {}\n\n");
  CHECK(ring.since(2).empty());
}

TEST_CASE("a number that was never given is another process's, and everything is told") {
  EventRing ring;
  ring.add("{}");
  CHECK(ring.since(99) == "id: 1\ndata: {}\n\n");
}

TEST_CASE("the oldest events go first, and whoever has missed some is told how many") {
  EventRing few(2, 1000);
  for (const auto* line : {"1", "2", "3", "4"}) few.add(line);
  CHECK(few.size() == 2);
  CHECK(few.since(1) == ": 1 events are kept no more\n\nid: 3\ndata: 3\n\nid: 4\ndata: 4\n\n");
  CHECK(few.since(2) == "id: 3\ndata: 3\n\nid: 4\ndata: 4\n\n");
  EventRing small(100, 10);
  small.add("123456");
  small.add("123456");
  CHECK(small.size() == 1);
  small.add(std::string(50, 'x'));
  CHECK(small.size() == 1);
}

TEST_CASE("events are asked for with and without what follows") {
  EventRing ring;
  CHECK(asks_for_events({.target = "/api/v1/events"}));
  CHECK(asks_for_events({.target = "/api/v1/events?once"}));
  CHECK_FALSE(asks_for_events({.target = "/api/v1/events?x"}));
  CHECK_FALSE(asks_for_events({.target = "/api/v1/eventsx"}));
  CHECK_FALSE(asks_for_events({.method = http::Method::post, .target = "/api/v1/events"}));
  const auto empty = events_answer(ring, {.target = "/api/v1/events"});
  CHECK(empty.goes_on);
  CHECK(empty.type == "text/event-stream");
  CHECK(empty.body == ":\n\n");
  ring.add("{}");
  ring.add("[]");
  const auto once = events_answer(ring, {.target = "/api/v1/events?once", .last_event_id = "1"});
  CHECK_FALSE(once.goes_on);
  CHECK(once.body == "id: 2\ndata: []\n\n");
  CHECK(events_answer(ring, {.target = "/api/v1/events", .last_event_id = "x"}).body ==
        ring.since(0));
}
