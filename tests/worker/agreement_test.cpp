#include "worker/torch/agreement.h"

#include <doctest/doctest.h>

using namespace cpprun;
using namespace std::chrono_literals;

TEST_CASE("ranks that call the same agree") {
  CHECK_FALSE(disagreement(1, {"barrier()", "barrier()"}).has_value());
}

TEST_CASE("a disagreement names each call and its ranks") {
  CHECK(disagreement(7, {"barrier()", "broadcast(from 0)", "barrier()"}) ==
        "the ranks disagree about collective 7: ranks 0, 2 call barrier(); rank 1 calls "
        "broadcast(from 0)");
}

TEST_CASE("ranks that stay away are named, with what the others wait for") {
  CHECK(absence(3, {"barrier()", std::nullopt, std::nullopt}, 1500ms) ==
        "ranks 1, 2 did not come to collective 3 within 1.5 s; rank 0 calls barrier()");
}
