// SPDX-License-Identifier: BSD-3-Clause
// How long workers live on after the lease, so that the new leader can be found.

#include <doctest/doctest.h>

#include "rendezvous/job/bounds.h"
#include "tests/launcher/agent/set_stage.h"

namespace takeover_window_test {

using namespace cpprun;
using namespace cpprun::testing;

TEST_CASE("workers live on for the takeover window after the lease, and no longer") {
  Set stage;
  stage.run_at_first();
  CHECK(stage.agent.overdue_at() ==
        t0 + 1s + own_lease + takeover_window + bounds::fence_margin / 2);
  stage.down(t0 + 1s);
  for (TimePoint now = t0 + 1s; now < t0 + 1s + own_lease + takeover_window; now += 500ms) {
    CHECK_FALSE(kills(stage.agent.advance(now)));
  }
  CHECK(kills(stage.agent.advance(t0 + 1s + own_lease + takeover_window)));
}

TEST_CASE("the takeover window counts from its arrival, and extends earlier answers") {
  Set stage{at_one()};
  stage.run();
  stage.answered(t0 + 1s);
  CHECK(stage.agent.overdue_at() == t0 + 1s + own_lease + bounds::fence_margin / 2);
  stage.heard(t0 + 2s, members(6, 1s));
  CHECK(stage.agent.overdue_at() == t0 + 2s + own_lease + bounds::fence_margin / 2);
  stage.heard(t0 + 2s, members(6, 5s));
  CHECK(stage.agent.overdue_at() == t0 + 6s + own_lease + bounds::fence_margin / 2);
}

TEST_CASE("a takeover window that shrinks, or ends, does so for later answers") {
  Set stage;
  stage.run_at_first();
  const auto fence = *stage.agent.overdue_at();
  stage.heard(t0 + 1100ms, members(6, 0s));
  CHECK(stage.agent.overdue_at() == fence);
  stage.answered(t0 + 2s);
  CHECK(stage.agent.overdue_at() == fence);
  stage.answered(t0 + 6s);
  CHECK(stage.agent.overdue_at() == t0 + 6s + own_lease + bounds::fence_margin / 2);
}

TEST_CASE("the takeover window of an earlier leader ends with the round") {
  Set stage;
  stage.join();
  stage.heard(t0, link::Waiting{"1 of 2 nodes have joined"});
  stage.heard(t0, members(6));
  stage.answered(t0 + 1s);
  stage.heard(t0 + 1s, members(6, 0s));
  stage.heard(t0 + 2s, seat());
  CHECK(stage.agent.overdue_at() == t0 + 1s + own_lease + bounds::fence_margin / 2);
}

TEST_CASE("an answer from a leader without a takeover window counts without one") {
  Set stage;
  stage.run_at_first();
  stage.turn_to_second(t0 + 1s, t0 + 4s);
  stage.heard(t0 + 4s, members(7, 0s));
  // By the first leader's window, which the second has to wait for as well.
  CHECK(stage.agent.overdue_at() ==
        t0 + 1s + own_lease + takeover_window + bounds::fence_margin / 2);
  stage.answered(t0 + 6s);
  CHECK(stage.agent.overdue_at() == t0 + 6s + own_lease + bounds::fence_margin / 2);
}

TEST_CASE("a lost seat ends its takeover window") {
  Set stage;
  stage.run_at_first();
  stage.down(t0 + 1s);
  stage.refused_until(t0 + 1s + own_lease + takeover_window);
  stage.end_worker(t0 + 8s, killed);
  stage.pass(t0 + 9s);
  stage.up(t0 + 9s);
  stage.heard(t0 + 9s, seat(second));
  CHECK(stage.agent.overdue_at() == t0 + 9s + own_lease + bounds::fence_margin / 2);
  stage.heard(t0 + 9s, members(7));
  CHECK(stage.agent.overdue_at() ==
        t0 + 9s + own_lease + takeover_window + bounds::fence_margin / 2);
}

TEST_CASE("a near miss is reported by the lease, with the takeover window that is left") {
  Set stage;
  stage.run_at_first();
  const auto late = stage.heard(t0 + 4400ms, link::Heartbeat{.sent = 2s});
  const auto reported = all<events::LeaseNearlyMissed>(late);
  REQUIRE(reported.size() == 1);
  CHECK(reported[0] == events::LeaseNearlyMissed{3400ms, 3s, takeover_window});
}

TEST_CASE("a node that succeeded asks for the result when the takeover window is over as well") {
  Set stage;
  stage.run_at_first();
  stage.end_worker(t0 + 1s, {});
  stage.down(t0 + 1s);
  Agent::Actions reported;
  for (auto due = stage.agent.next_deadline(); due && *due <= t0 + 1s + own_lease + takeover_window;
       due = stage.agent.next_deadline()) {
    CHECK(notes(reported).empty());
    auto more = stage.agent.advance(*due);
    if (!all<agent::Dial>(more).empty()) stage.down(*due, "connection refused");
    Stage::append(reported, std::move(more));
  }
  REQUIRE(notes(reported).size() == 1);
  CHECK(notes(reported)[0].sentence.find("querying the result of the job (timeout 600 s)") !=
        std::string::npos);
  // The new leader reports it.
  const auto due = *stage.agent.next_deadline();
  stage.agent.advance(due);
  CHECK(said<link::Join>(stage.up(due))[0].done);
  stage.heard(due, link::Heartbeat{});
  stage.heard(due, members(7));
  CHECK(all<events::JobEnded>(stage.agent.advance(t0 + 1s + own_lease + takeover_window + 600s))
            .empty());
}

TEST_CASE("a node suspended past lease and takeover window kills its workers when it wakes") {
  Set stage;
  stage.run_at_first();
  const auto awake = stage.agent.handle(t0 + 60s, agent::Fenced{});
  CHECK(kills(awake));
  const auto out = stage.end_worker(t0 + 60s, killed);
  REQUIRE(notes(out).size() == 1);
  CHECK(notes(out)[0].sentence.starts_with(
      "this node was suspended or got no CPU time for about 59 s, longer than its lease of 7 s; "));
}

}  // namespace takeover_window_test
