// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/checkpoint_names.h"

#include <doctest/doctest.h>

namespace checkpoint_names_test {

using namespace cpprun;
using Names = std::vector<std::string>;

TEST_CASE("a step and its name belong together") {
  CHECK(checkpoint_name(1200) == "checkpoint-000000001200.safetensors");
  CHECK(checkpoint_step("checkpoint-000000001200.safetensors") == 1200);
  CHECK(checkpoint_step(checkpoint_name(9'000'000'000'000)) == 9'000'000'000'000);
}

TEST_CASE("a name that only resembles a checkpoint's is ignored") {
  CHECK_FALSE(checkpoint_step("checkpoint-.safetensors"));
  CHECK_FALSE(checkpoint_step("checkpoint.safetensors"));
  CHECK_FALSE(checkpoint_step("checkpoint--5.safetensors"));
  CHECK_FALSE(checkpoint_step("checkpoint-12.safetensors.tmp-abcdef"));
  CHECK_FALSE(checkpoint_step("model.pth"));
}

TEST_CASE("steps are listed newest first") {
  CHECK(checkpoint_steps({checkpoint_name(5), "readme", checkpoint_name(90), checkpoint_name(7)}) ==
        std::vector<std::int64_t>{90, 7, 5});
}

TEST_CASE("only the newest checkpoints are kept, and no incomplete ones") {
  const Names names = {checkpoint_name(10), checkpoint_name(20),
                       checkpoint_name(30), checkpoint_name(25) + ".tmp-Xa1b2c",
                       "notes.txt",         "other.tmp-Xa1b2c"};
  CHECK(superfluous(names, 30, 2) == Names{checkpoint_name(10), names[3]});
  CHECK(superfluous(names, 30, 5) == Names{names[3]});
}

TEST_CASE("a later step than the one just saved is neither removed nor kept in its place") {
  // The newest was damaged: the job went back to 10 and has now reached 20.
  const Names names = {checkpoint_name(10), checkpoint_name(20), checkpoint_name(30)};
  CHECK(superfluous(names, 20, 1) == Names{checkpoint_name(10)});
}

}  // namespace checkpoint_names_test
