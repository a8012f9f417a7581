#include "rendezvous/job/keeper_actions.h"

#include <doctest/doctest.h>

using namespace cpprun;

TEST_CASE("a refusal is said, logged with who it was, and ends the link") {
  keeper::Actions actions;
  keeper::refuse({LinkId{7}, "10.0.0.2"}, "beta", "no seat", actions);
  CHECK(actions ==
        keeper::Actions{keeper::Say{LinkId{7}, link::Refused{"no seat"}},
                        keeper::HangUp{LinkId{7}, "no seat"},
                        keeper::Note{.line = "refused the node on beta (10.0.0.2): no seat",
                                     .level = LogLevel::warning,
                                     .of_stranger = true}});
}
