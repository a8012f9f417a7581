// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/event_ring.h"

#include <doctest/doctest.h>

namespace event_ring_test {

using namespace cpprun;

TEST_CASE("an event is the same for current and later watchers") {
  EventRing ring("run");
  const auto sent = ring.add("{\"event\":\"a\"}\n");
  CHECK(sent == "id: run-1\ndata: {\"event\":\"a\"}\n\n");
  CHECK(ring.since("") == sent);
  CHECK(ring.add("{}") == "id: run-2\ndata: {}\n\n");
  CHECK(ring.since("run-1") == "id: run-2\ndata: {}\n\n");
  CHECK(ring.since("run-2").empty());
}

TEST_CASE("an id of another run is unknown, and all events are sent with a note") {
  const std::string note = ": Last-Event-ID is from another run; sending all stored events\n\n";
  EventRing before("before");
  EventRing ring("after");
  for (const auto* line : {"1", "2", "3"}) {
    before.add(line);
    ring.add(line);
  }
  const std::string all = ring.since("");
  CHECK(all.starts_with("id: after-1\n"));
  // Two events were missed since then: their numbers were assigned twice.
  CHECK(ring.since("before-1") == note + all);
  CHECK(ring.since("after-4") == note + all);
  CHECK(ring.since("1") == note + all);  // from an earlier release
  CHECK(ring.since("after-") == note + all);
  CHECK(ring.since("after-1") != all);
}

TEST_CASE("the oldest events are dropped first, and a late watcher receives their number") {
  EventRing few("run", 2, 1000);
  for (const auto* line : {"1", "2", "3", "4"}) few.add(line);
  CHECK(few.size() == 2);
  const std::string both = "id: run-3\ndata: 3\n\nid: run-4\ndata: 4\n\n";
  CHECK(few.since("run-1") == ": 1 older events were dropped\n\n" + both);
  CHECK(few.since("run-2") == both);
  EventRing small("run", 100, 10);
  small.add("123456");
  small.add("123456");
  CHECK(small.size() == 1);
  small.add(std::string(50, 'x'));
  CHECK(small.size() == 1);
}

TEST_CASE("events can be requested once or as a stream") {
  EventRing ring("run");
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
  const auto once =
      events_answer(ring, {.target = "/api/v1/events?once", .last_event_id = "run-1"});
  CHECK_FALSE(once.goes_on);
  CHECK(once.body == "id: run-2\ndata: []\n\n");
  CHECK(events_answer(ring, {.target = "/api/v1/events", .last_event_id = "x"}).body ==
        ring.since("x"));
}

}  // namespace event_ring_test
