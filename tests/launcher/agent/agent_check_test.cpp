// SPDX-License-Identifier: BSD-3-Clause
// That nothing an agent lives through breaks its invariants. Every step of the other tests of the
// agent asks as well, and planted bugs in tests/sim show that the answer can be another.

#include <doctest/doctest.h>

#include "tests/launcher/agent/agent_stage.h"

using namespace cpprun;
using namespace cpprun::testing;

TEST_CASE("an agent's invariants hold from its first dial to its last word") {
  Stage stage;
  CHECK_FALSE(stage.agent.check());
  stage.run();
  CHECK_FALSE(stage.agent.check());
  stage.agent.handle(t0 + 1s, agent::LinkDown{"connection reset"});
  CHECK_FALSE(stage.agent.check());
  stage.agent.handle(t0 + 2s, agent::LinkUp{"10.0.0.2"});
  stage.heard(t0 + 2s, link::Drain{first, "a node is lost"});
  CHECK(said<link::Drained>(stage.end_worker(t0 + 3s, {true, SIGTERM})).size() == 1);
  stage.heard(t0 + 4s, seat(second));
  stage.worker(t0 + 4s, supervisor::Started{LocalRank{0}, 101});
  stage.end_worker(t0 + 5s, {});
  stage.heard(t0 + 6s, link::Finish{.reason = "every worker finished"});
  CHECK_FALSE(stage.agent.check());
}
