// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/round_messages.h"

#include <doctest/doctest.h>

namespace round_messages_test {

using namespace cpprun;

TEST_CASE("a place has the variables of a worker that is started for it") {
  WorkerSpec spec;
  spec.variables = {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "fd00::2"}, {"OTHER", "x"}};
  CHECK(place_message(spec, RoundNumber{3}) ==
        "place round=3 uuid=3 RANK=1 WORLD_SIZE=4 MASTER_ADDR=fd00::2");
  CHECK(broken_message(RoundNumber{3}) == "broken round=3");
}

TEST_CASE("a worker says which round it has left") {
  CHECK(parse_waits("waits local_rank=2 round=3") ==
        supervisor::Rejoins{LocalRank{2}, RoundNumber{3}});
  CHECK(parse_waits("waits local_rank=0 round=0\n") == supervisor::Rejoins{});
}

TEST_CASE("anything else is rejected, with what was expected") {
  for (const char* const wrong : {"", "waits", "waits local_rank=2", "waits local_rank=-1 round=3",
                                  "waits round=3 local_rank=2", "waits local_rank=2 round=-3",
                                  "waits local_rank=2 round=3 more", "waits local_rank=2x round=3",
                                  "waits local_rank=2 round=99999999999",
                                  "waits  local_rank=2 round=3", "waits\tlocal_rank=2"}) {
    const auto parsed = parse_waits(wrong);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().reason.starts_with("expected \"waits local_rank=N round=N\", not "));
  }
}

}  // namespace round_messages_test
