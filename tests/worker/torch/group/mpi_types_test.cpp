// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/mpi_progress.h"

// Before doctest, because LibTorch has a CHECK of its own.
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <doctest/doctest.h>

using namespace cpprun;
using c10d::ReduceOp;

namespace {

// The result of MPI's reduction of two lists, element by element.
at::Tensor reduced(const at::Tensor& more, const at::Tensor& into, ReduceOp::RedOpType op) {
  const auto progress = mpi_progress();
  progress->wait_until_ready(std::chrono::minutes(1));
  const at::Tensor result = into.clone();
  const int code = progress->call([&] {
    const MpiReduction how = mpi_reduction(more.scalar_type(), op);
    return MPI_Reduce_local(more.data_ptr(), result.data_ptr(), static_cast<int>(more.numel()),
                            how.type, how.op);
  });
  CHECK(code == MPI_SUCCESS);
  return result;
}

bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.equal(b);
}

}  // namespace

TEST_CASE("16-bit fractions are reduced as LibTorch computes them") {
  for (const auto type : {at::kHalf, at::kBFloat16}) {
    const at::Tensor a = at::tensor({1.5, -2.25, 1000.0, 0.1}).to(type);
    const at::Tensor b = at::tensor({2.0, 3.5, 1.25, 0.2}).to(type);
    CHECK(same(reduced(a, b, ReduceOp::SUM), a.add(b)));
    CHECK(same(reduced(a, b, ReduceOp::AVG), a.add(b)));  // the caller divides
    CHECK(same(reduced(a, b, ReduceOp::PRODUCT), a.mul(b)));
    CHECK(same(reduced(a, b, ReduceOp::MIN), a.minimum(b)));
    CHECK(same(reduced(a, b, ReduceOp::MAX), a.maximum(b)));
  }
}

TEST_CASE("booleans stay booleans") {
  const at::Tensor a = at::tensor({1, 1, 0, 0}).to(at::kBool);
  const at::Tensor b = at::tensor({1, 0, 1, 0}).to(at::kBool);
  const at::Tensor any = at::tensor({1, 1, 1, 0}).to(at::kByte);
  const at::Tensor all = at::tensor({1, 0, 0, 0}).to(at::kByte);
  const auto bytes = [&](ReduceOp::RedOpType op) { return reduced(a, b, op).view(at::kByte); };
  CHECK(same(bytes(ReduceOp::SUM), any));
  CHECK(same(bytes(ReduceOp::BOR), any));
  CHECK(same(bytes(ReduceOp::MAX), any));
  CHECK(same(bytes(ReduceOp::PRODUCT), all));
  CHECK(same(bytes(ReduceOp::MIN), all));
  CHECK(same(bytes(ReduceOp::BAND), all));
  CHECK(same(bytes(ReduceOp::BXOR), at::tensor({0, 1, 1, 0}).to(at::kByte)));
}

TEST_CASE("every other number type is MPI's own") {
  for (const auto type : {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kFloat,
                          at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
    const at::Tensor a = at::tensor({1, 2, 3}).to(type);
    const at::Tensor b = at::tensor({5, 1, 7}).to(type);
    CHECK(same(reduced(a, b, ReduceOp::SUM), a.add(b)));
    CHECK(same(reduced(a, b, ReduceOp::PRODUCT), a.mul(b)));
    if (at::isComplexType(type)) continue;
    CHECK(same(reduced(a, b, ReduceOp::MIN), a.minimum(b)));
    CHECK(same(reduced(a, b, ReduceOp::MAX), a.maximum(b)));
    if (at::isFloatingType(type)) continue;
    CHECK(same(reduced(a, b, ReduceOp::BAND), a.bitwise_and(b)));
    CHECK(same(reduced(a, b, ReduceOp::BOR), a.bitwise_or(b)));
    CHECK(same(reduced(a, b, ReduceOp::BXOR), a.bitwise_xor(b)));
  }
}

TEST_CASE("every type with a size can be moved") {
  CHECK(mpi_element(at::kBool) == MPI_UINT8_T);
  CHECK(mpi_element(at::kBFloat16) == MPI_UINT16_T);
  CHECK(mpi_element(at::kFloat8_e4m3fn) == MPI_UINT8_T);
  CHECK(mpi_element(at::kComplexFloat) == MPI_UINT64_T);
  CHECK(mpi_element(at::kComplexDouble) == MPI_C_DOUBLE_COMPLEX);
}
