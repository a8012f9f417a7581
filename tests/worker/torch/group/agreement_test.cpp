// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/collective_check.h"

#include <doctest/doctest.h>

namespace agreement_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

using Calls = std::vector<std::optional<Call>>;

}  // namespace

TEST_CASE("ranks that make the same call agree") {
  CHECK_FALSE(disagreement(1, Calls{Call{"barrier()"}, Call{"barrier()"}}).has_value());
}

TEST_CASE("a disagreement names each call and its ranks") {
  CHECK(disagreement(7, Calls{Call{"barrier()"}, Call{"broadcast(from 0)"}, Call{"barrier()"}}) ==
        "the ranks disagree about collective 7: ranks 0, 2 call barrier(); rank 1 calls "
        "broadcast(from 0)");
}

TEST_CASE("a disagreement names the rank with fewer steps, and gives a hint") {
  CHECK(disagreement(7, Calls{Call{"all_reduce()", 13}, Call{"barrier()", 12}}) ==
        "the ranks disagree about collective 7: rank 0 calls all_reduce(); rank 1 calls barrier(); "
        "rank 1 is behind in DistributedDataParallel, at step 12 while others are at 13: give "
        "every rank the same number of batches (DistributedSampler does), or use cpprun::Join "
        "(join.h; torch's Join in Python)");
  CHECK(
      short_of_steps({3, 5, 4}, {0, 4, 6})
          .starts_with("; ranks 0, 6 are behind in DistributedDataParallel, at step 3, 4 while "));
  CHECK(short_of_steps({5, std::nullopt, 5}, {0, 1, 2}) == "");
}

TEST_CASE("missing ranks are named, with the call in which the others wait") {
  CHECK(absence(3, Calls{Call{"barrier()"}, std::nullopt, std::nullopt}, 1500ms) ==
        "ranks 1, 2 did not reach collective 3 within 1.5 s; rank 0 calls barrier()");
}

TEST_CASE("models that differ are distinguished at their first difference") {
  CHECK(model_difference({"a\nb\n", "a\nb\n"}) == std::nullopt);
  CHECK(model_difference({"a\nb\n", "a\nc\n", "a\nb\n"}) == "b on ranks 0, 2; c on rank 1");
  CHECK(model_difference({"a\n", "a\nb\n"}) == "no further tensor on rank 0; b on rank 1");
}

TEST_CASE("ranks that wait in different steps or kinds of calls have diverged") {
  const std::string bucket = "all_reduce(Float [650] on cpu) in step 3 of a model";
  CHECK(parted({Call{bucket, 3}, Call{"barrier", 2}}, {4, 6}) ==
        "the ranks wait in different calls: rank 4 calls " + bucket +
            "; rank 6 calls barrier; rank 6 is behind in DistributedDataParallel, at step 2 while "
            "others are at 3: " +
            uneven_advice);
  CHECK(parted({Call{"broadcast", 0}, std::nullopt, Call{"all_reduce", 0}}, {0, 1, 2}) ==
        "the ranks wait in different calls: rank 0 calls broadcast; rank 2 calls all_reduce");
}

TEST_CASE("ranks that wait in the same call or in buckets of the same step have not diverged") {
  CHECK(parted({Call{"barrier", 2}, std::nullopt, Call{"barrier", 2}}, {0, 1, 2}).empty());
  CHECK(parted({Call{"all_reduce(Float [2] on cpu) in step 3 of a model", 3},
                Call{"all_reduce(Float [9] on cpu) in step 3 of a model", 3}},
               {0, 1})
            .empty());
  CHECK(parted({std::nullopt, std::nullopt}, {0, 1}).empty());
}

}  // namespace agreement_test
