// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/coordinator_actions.h"

#include <doctest/doctest.h>

namespace coordinator_actions_test {

using namespace cpprun;

TEST_CASE("a rejection is sent, logged with its origin, and closes the link") {
  coordinator::Actions actions;
  coordinator::refuse({LinkId{7}, "10.0.0.2"}, "beta", "no seat", actions);
  CHECK(actions == coordinator::Actions{
                       coordinator::Say{LinkId{7}, link::Refused{"no seat"}},
                       coordinator::HangUp{LinkId{7}, "no seat"},
                       coordinator::Note{.line = "rejected the node on beta (10.0.0.2): no seat",
                                         .level = LogLevel::warning,
                                         .of_unidentified = true}});
}

}  // namespace coordinator_actions_test
