// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/mpi_tensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <doctest/doctest.h>

#include "worker/torch/group/distributed_error.h"

namespace mpi_tensors_test {

using namespace cpprun;
using namespace cpprun::mpi;
using c10d::ReduceOp;

TEST_CASE("only dense CPU memory is accepted") {
  const at::Tensor good = at::zeros({2, 3});
  CHECK(plain(good, "send").data_ptr() == good.data_ptr());
  CHECK_THROWS_WITH_AS(plain(good.t(), "send"),
                       "send over mpi: the tensor is not contiguous: call contiguous() first",
                       DistributedError);
  CHECK_THROWS_WITH_AS(plain(good.to_sparse(), "send"),
                       "send over mpi: the tensor is not dense: call to_dense() first",
                       DistributedError);
  CHECK_THROWS_WITH_AS(only({good, good}, "send"), "send over mpi needs one tensor, not 2",
                       DistributedError);
}

TEST_CASE("more elements than MPI can count are rejected with a hint") {
  CHECK(count_of(2147483647, "send") == 2147483647);
  CHECK_THROWS_WITH_AS(count_of(2147483648, "send"),
                       "send over mpi: 2147483648 elements exceed MPI's limit of 2147483647: "
                       "send the tensor in parts",
                       DistributedError);
}

TEST_CASE("a reduction that is undefined for a type is rejected") {
  CHECK(why_not_reduced(at::kFloat, ReduceOp::AVG) == "");
  CHECK(why_not_reduced(at::kBFloat16, ReduceOp::MAX) == "");
  CHECK(why_not_reduced(at::kBool, ReduceOp::BXOR) == "");
  CHECK(why_not_reduced(at::kLong, ReduceOp::AVG).find("cannot average integers") !=
        std::string::npos);
  CHECK(why_not_reduced(at::kFloat, ReduceOp::BAND) ==
        "bitwise operations need integers, not Float");
  CHECK(why_not_reduced(at::kComplexFloat, ReduceOp::MIN) ==
        "complex numbers have no minimum or maximum");
  CHECK(why_not_reduced(at::kFloat8_e5m2, ReduceOp::SUM) ==
        "MPI cannot reduce Float8_e5m2: convert the tensor first");
}

TEST_CASE("several tensors are packed into one buffer and unpacked") {
  const at::Tensor flat = joined({at::full({2, 2}, 1.0), at::full({1}, 2.0)});
  CHECK(flat.numel() == 5);
  const at::Tensor first = at::zeros({1});
  const at::Tensor second = at::zeros({2, 2});
  deal(at::arange(5, at::kFloat), {first, second});
  CHECK(first.item<float>() == 0);
  CHECK(second[1][1].item<float>() == 4);
}

TEST_CASE("splits of rows become counts of elements and offsets") {
  std::vector<int> counts;
  add_counts(counts, at::zeros({4, 3}), {}, 2, "input");
  CHECK(counts == std::vector<int>{6, 6, 0, 6});
  counts.clear();
  add_counts(counts, at::zeros({4, 3}), {1, 3}, 2, "input");
  CHECK(counts == std::vector<int>{3, 9, 0, 3});
  counts.clear();
  add_counts(counts, at::zeros({0, 3}), {0, 0}, 2, "input");
  CHECK(counts == std::vector<int>{0, 0, 0, 0});
  CHECK_THROWS_WITH_AS(
      add_counts(counts, at::zeros({4}), {1, 2}, 2, "output"),
      "all_to_all over mpi: 4 rows of the output cannot be split into [1, 2] for 2 "
      "ranks",
      DistributedError);
}

}  // namespace mpi_tensors_test
