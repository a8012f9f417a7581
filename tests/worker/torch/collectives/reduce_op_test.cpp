// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/collectives/reduce_op.h"

#include <ATen/ops/full.h>
#include <doctest/doctest.h>

using namespace cpprun;

TEST_CASE("every reduction has a name and a counterpart") {
  const at::Tensor tensor = at::full({1}, 1.0);
  CHECK(name_of(ReduceOp::bit_xor) == "bit_xor");
  CHECK(native_op(ReduceOp::max, tensor) == c10d::ReduceOp::MAX);
  CHECK(native_op(ReduceOp::bit_and, tensor) == c10d::ReduceOp::BAND);
  // On the CPU we divide ourselves.
  CHECK(native_op(ReduceOp::average, tensor) == c10d::ReduceOp::SUM);
}

TEST_CASE("reductions that are undefined for a type are rejected") {
  const at::Tensor whole = at::full({1}, 1, at::kLong);
  const at::Tensor fraction = at::full({1}, 1.0, at::kFloat);
  CHECK_THROWS_AS(require_type(whole, ReduceOp::average, "all_reduce"), DistributedError);
  CHECK_THROWS_AS(require_type(fraction, ReduceOp::bit_or, "all_reduce"), DistributedError);
  CHECK_NOTHROW(require_type(whole, ReduceOp::bit_or, "all_reduce"));
}
