// SPDX-License-Identifier: BSD-3-Clause
// Operations that LibTorch itself needs of a backend, in addition to those that the tests of
// worker/torch/collectives also run over MPI.

// Before doctest, because LibTorch has a CHECK of its own.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <doctest/doctest.h>

#include "tests/worker/two_ranks.h"
#include "worker/torch/collectives/collectives.h"

using namespace cpprun;
using testing::expect;
using Tensors = std::vector<at::Tensor>;

namespace {

c10::intrusive_ptr<c10d::Backend> backend_of(const ProcessGroup& group) {
  return group.native()->getBackend(c10::kCPU);
}

// Ranks 0, 1 and 2 contribute 1, 2 and 3.
at::Tensor mine(const ProcessGroup& group, at::ScalarType type) {
  return at::full({5}, group.rank() + 1, type);
}

}  // namespace

TEST_CASE("every number type is summed and broadcast") {
  CHECK(testing::on_ranks(3, [](const ProcessGroup& group) {
          for (const auto type : {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf,
                                  at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat}) {
            const at::Tensor sum = mine(group, type);
            all_reduce(sum, group);
            expect(sum.equal(at::full({5}, 6, type)), c10::toString(type));
            const at::Tensor of_one = mine(group, type);
            broadcast(of_one, group, 1);
            expect(of_one.equal(at::full({5}, 2, type)), c10::toString(type));
          }
          const at::Tensor truth = at::full({2}, group.rank() == 1, at::kBool);
          all_reduce(truth, group);
          expect(truth.all().item<bool>(), "any");
        }) == "");
}

TEST_CASE("many operations run at once, and each rank waits for them in another order") {
  CHECK(testing::on_ranks(3, [](const ProcessGroup& group) {
          std::vector<Work> works;
          for (int n = 0; n < 20; ++n) {
            works.push_back(all_reduce_async(at::full({1000 * n + 1}, n, at::kFloat), group));
          }
          for (int n = 0; n < 20; ++n) {
            const int which = group.rank() == 0 ? n : group.rank() == 1 ? 19 - n : (n * 7) % 20;
            const at::Tensor sum = works[static_cast<std::size_t>(which)].wait().front();
            expect(sum[-1].item<float>() == static_cast<float>(3 * which), "sum");
          }
        }) == "");
}

TEST_CASE("large tensors and empty ones are reduced and exchanged") {
  CHECK(testing::on_ranks(3, [](const ProcessGroup& group) {
          const at::Tensor large = at::full({3 << 20}, group.rank() + 1, at::kFloat);
          all_reduce(large, group);
          expect(large.min().item<float>() == 6 && large.max().item<float>() == 6, "large");
          const at::Tensor none = at::zeros({0});
          all_reduce(none, group);
          expect(all_gather(none, group).size() == 3, "empty");
          const at::Tensor few = all_to_all_single(at::arange(3).add(10 * group.rank()), group);
          expect(few.equal(at::arange(3).mul(10).add(group.rank())), "exchanged");
        }) == "");
}

TEST_CASE("the backend computes an average") {
  CHECK(testing::on_ranks(3, [](const ProcessGroup& group) {
          Tensors tensors = {mine(group, at::kHalf)};
          backend_of(group)->allreduce(tensors, {.reduceOp = c10d::ReduceOp::AVG})->wait();
          expect(tensors[0].equal(at::full({5}, 2, at::kHalf)), "average");
        }) == "");
}

TEST_CASE("several tensors are reduced as one") {
  CHECK(testing::on_ranks(3, [](const ProcessGroup& group) {
          Tensors tensors = {mine(group, at::kFloat), at::full({2, 2}, 1.0, at::kFloat)};
          backend_of(group)->allreduce_coalesced(tensors)->wait();
          expect(tensors[0][4].item<float>() == 6 && tensors[1][1][1].item<float>() == 3, "sums");
        }) == "");
}

TEST_CASE("lists are scattered in parts that are reduced, and exchanged") {
  CHECK(testing::on_ranks(3, [](const ProcessGroup& group) {
          Tensors outputs = {at::zeros({2})};
          std::vector<Tensors> inputs(1);
          for (int n = 0; n < 3; ++n) inputs[0].push_back(at::full({2}, n + 1.0, at::kFloat));
          backend_of(group)->reduce_scatter(outputs, inputs)->wait();
          expect(outputs[0][1].item<float>() == 3.0F * static_cast<float>(group.rank() + 1),
                 "part");

          const auto rank = static_cast<double>(group.rank());
          Tensors give = {at::full({1}, rank), at::full({2}, rank), at::full({3}, rank)};
          Tensors get(3);
          for (at::Tensor& each : get) each = at::full({group.rank() + 1}, -1.0);
          backend_of(group)->alltoall(get, give)->wait();
          for (int n = 0; n < 3; ++n) {
            expect(get[static_cast<std::size_t>(n)].eq(n).all().item<bool>(), "exchanged");
          }
        }) == "");
}

TEST_CASE("an undefined reduction is rejected before any rank waits") {
  CHECK(testing::on_ranks(3, [](const ProcessGroup& group) {
          Tensors tensors = {mine(group, at::kFloat)};
          try {
            backend_of(group)->allreduce(tensors, {.reduceOp = c10d::ReduceOp::BOR});
            expect(false, "not refused");
          } catch (const DistributedError& error) {
            expect(std::string(error.what()) ==
                       "all_reduce over mpi: bitwise operations need integers, not Float",
                   error.what());
          }
          barrier(group);
        }) == "");
}
