// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/optim/training.h"

#include <doctest/doctest.h>

#include <stdexcept>

namespace schedule_test {

using namespace cpprun;
using doctest::Approx;

// Compared with PyTorch's schedules by parity_test.py.

TEST_CASE("a step schedule falls at multiples of its size") {
  CHECK(step_lr(1, 0, 10) == 1);
  CHECK(step_lr(1, 9, 10) == 1);
  CHECK(step_lr(1, 10, 10) == Approx(0.1));
  CHECK(step_lr(1, 25, 10, 0.5) == Approx(0.25));
}

TEST_CASE("a cosine falls from the base to the minimum") {
  CHECK(cosine_annealing_lr(1, 0, 100) == 1);
  CHECK(cosine_annealing_lr(1, 50, 100) == Approx(0.5));
  CHECK(cosine_annealing_lr(1, 100, 100, 0.25) == Approx(0.25));
}

TEST_CASE("a warm-up ends at the base, where the cosine starts") {
  CHECK(linear_lr(1, 0, 4, 0.2) == Approx(0.2));
  CHECK(linear_lr(1, 9, 4, 0.2) == Approx(1));
  CHECK(warmup_cosine_lr(1, 0, 10, 110, 0.5) == Approx(0.5));
  CHECK(warmup_cosine_lr(1, 5, 10, 110, 0.5) == Approx(0.75));
  CHECK(warmup_cosine_lr(1, 10, 10, 110) == 1);
  CHECK(warmup_cosine_lr(1, 60, 10, 110) == Approx(0.5));
  CHECK(warmup_cosine_lr(1, 0, 0, 100) == 1);
}

TEST_CASE("a schedule without a length, or before its start, is rejected") {
  CHECK_THROWS_WITH_AS(static_cast<void>(step_lr(1, 0, 0)), "step_size must be above 0, not 0",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(static_cast<void>(linear_lr(1, -1, 5)),
                       "no learning rate for negative step -1", std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(warmup_cosine_lr(1, 0, 10, 10)), std::invalid_argument);
}

}  // namespace schedule_test
