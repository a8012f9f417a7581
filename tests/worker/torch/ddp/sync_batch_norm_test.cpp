// SPDX-License-Identifier: BSD-3-Clause
// Python's SyncBatchNorm needs a GPU, so these tests compare with its definition: plain batch
// normalization over the batches of all ranks in one process.

#include "worker/torch/ddp/sync_batch_norm.h"

#include <torch/torch.h>

#include <doctest/doctest.h>

#include "tests/worker/two_ranks.h"
#include "worker/torch/collectives/collectives.h"

namespace sync_batch_norm_test {

using namespace cpprun;
using testing::expect;

namespace {

bool close(const torch::Tensor& a, const torch::Tensor& b) {
  return torch::allclose(a, b, /*rtol=*/1e-5, /*atol=*/1e-5);
}

// Images of three features, far from zero, so that naive sums of squares would show.
torch::Tensor batch_of(int rank, int rows) {
  const auto numbers = torch::arange(rows * 3 * 4 * 4, torch::kFloat) + 17 * rank;
  return (torch::sin(numbers * 0.37) + 100).view({rows, 3, 4, 4});
}

torch::Tensor weights_of(const torch::Tensor& output) {
  return torch::cos(torch::arange(output.numel(), torch::kFloat) * 0.21).view(output.sizes());
}

struct Step {
  torch::Tensor output, input_gradient, weight_gradient, bias_gradient, mean, variance;
};

template <class Norm>
Step train_once(Norm& norm, const torch::Tensor& batch, const torch::Tensor& weights) {
  const auto input = batch.clone().set_requires_grad(true);
  const auto output = norm->forward(input);
  (output * weights).sum().backward();
  return {output.detach(),   input.grad(),       norm->weight.grad(),
          norm->bias.grad(), norm->running_mean, norm->running_var};
}

}  // namespace

TEST_CASE("statistics and gradients are those of all ranks' batches, of equal length or not") {
  // Two rows of rank 0, three of rank 1.
  const auto whole = torch::cat({batch_of(0, 2), batch_of(1, 3)});
  torch::nn::BatchNorm2d plain(3);
  const Step expected = train_once(plain, whole, weights_of(whole));
  CHECK(testing::on_two_ranks([&](const ProcessGroup& group) {
          const int rank = group.rank();
          const std::int64_t from = rank == 0 ? 0 : 2;
          const std::int64_t rows = 2 + rank;
          SyncBatchNorm norm(3);
          norm->set_process_group(group);
          const Step step = train_once(norm, batch_of(rank, static_cast<int>(rows)),
                                       weights_of(whole).narrow(0, from, rows));
          expect(close(step.output, expected.output.narrow(0, from, rows)), "output");
          expect(close(step.input_gradient, expected.input_gradient.narrow(0, from, rows)),
                 "gradient of the input");
          expect(close(step.mean, expected.mean), "running mean");
          expect(close(step.variance, expected.variance), "running variance");
          torch::Tensor sums = torch::cat({step.weight_gradient, step.bias_gradient});
          all_reduce(sums, group);
          expect(close(sums, torch::cat({expected.weight_gradient, expected.bias_gradient})),
                 "gradients of weight and bias, over the ranks");
        }) == "");
}

TEST_CASE("a module in bfloat16 computes its statistics in float") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          SyncBatchNorm norm(3);
          norm->to(torch::kBFloat16);
          norm->set_process_group(group);
          const auto input = batch_of(group.rank(), 2).to(torch::kBFloat16).requires_grad_();
          const auto output = norm->forward(input);
          expect(output.scalar_type() == torch::kBFloat16, "the type of the output");
          expect(output.abs().max().item<float>() < 3, "a normalised output");
          output.sum().backward();
          expect(input.grad().scalar_type() == torch::kBFloat16, "the type of the gradient");
          expect(norm->weight.grad().scalar_type() == torch::kBFloat16, "the type of the weight");
        }) == "");
}

TEST_CASE("it works without weight and bias, and without running statistics") {
  const auto whole = torch::cat({batch_of(0, 2), batch_of(1, 2)});
  const auto options = torch::nn::BatchNorm2dOptions(3).affine(false);
  torch::nn::BatchNorm2d plain(options);
  const auto expected_input = whole.clone().set_requires_grad(true);
  const auto expected = plain->forward(expected_input);
  (expected * weights_of(expected)).sum().backward();
  for (const bool tracks : {true, false}) {
    CHECK(testing::on_two_ranks([&](const ProcessGroup& group) {
            const std::int64_t from = 2 * group.rank();
            torch::nn::Sequential net(torch::nn::BatchNorm2d(
                torch::nn::BatchNorm2dOptions(3).affine(false).track_running_stats(tracks)));
            convert_sync_batchnorm(*net, group);
            const auto input = whole.narrow(0, from, 2).clone().set_requires_grad(true);
            const auto output = net->forward(input);
            (output * weights_of(whole).narrow(0, from, 2)).sum().backward();
            expect(close(output, expected.narrow(0, from, 2)), "output");
            expect(close(input.grad(), expected_input.grad().narrow(0, from, 2)), "gradient");
          }) == "");
  }
}

TEST_CASE("a forward in evaluation may wait for its backward while training continues") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          SyncBatchNorm norm(3);
          norm->set_process_group(group);
          norm->eval();
          const auto frozen = norm->forward(batch_of(0, 2).set_requires_grad(true));
          norm->train();
          const auto trained = norm->forward(batch_of(group.rank(), 2));
          (frozen.sum() + trained.sum()).backward();
        }) == "");
}

TEST_CASE("with one rank or in evaluation it is plain batch normalization") {
  const auto batch = batch_of(0, 4);
  SyncBatchNorm alone(3);
  torch::nn::BatchNorm2d plain(3);
  const Step expected = train_once(plain, batch, weights_of(batch));
  const Step step = train_once(alone, batch, weights_of(batch));
  CHECK(torch::equal(step.output, expected.output));
  CHECK(torch::equal(step.input_gradient, expected.input_gradient));
  CHECK(torch::equal(step.variance, expected.variance));
  alone->eval();
  plain->eval();
  CHECK(torch::equal(alone->forward(batch), plain->forward(batch)));
}

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    body->push_back(torch::nn::Linear(4, 5));
    body->push_back(torch::nn::BatchNorm1d(5));
    body->push_back(torch::nn::ReLU());
    register_module("body", body);
    last = register_module("last", SyncBatchNorm(5));
  }
  torch::Tensor forward(const torch::Tensor& x) { return last->forward(body->forward(x)); }
  torch::nn::Sequential body;
  SyncBatchNorm last{nullptr};
};

}  // namespace

TEST_CASE("BatchNorms of containers are replaced and keep their tensors") {
  const ProcessGroup group = init_process_group(Context{});
  NetImpl net;
  const auto before = net.named_parameters();
  const auto batch = torch::sin(torch::arange(12, torch::kFloat)).view({3, 4});
  net.eval();
  const auto expected = net.forward(batch);
  convert_sync_batchnorm(net, group);
  const auto after = net.named_parameters();
  REQUIRE(after.size() == before.size());
  for (const auto& item : before) CHECK(item.value().is_same(after[item.key()]));
  const auto exchanged = net.body->children().at(1);
  CHECK(exchanged->as<SyncBatchNormImpl>() != nullptr);
  CHECK_FALSE(exchanged->is_training());
  CHECK(torch::equal(net.forward(batch), expected));
  CHECK(net.named_buffers().size() == 6);
}

namespace {

struct HeldImpl : torch::nn::Module {
  HeldImpl() { norm = register_module("norm", torch::nn::BatchNorm1d(2)); }
  torch::nn::BatchNorm1d norm{nullptr};
};

}  // namespace

TEST_CASE("a BatchNorm that cannot be replaced is rejected with a hint") {
  const ProcessGroup group = init_process_group(Context{});
  HeldImpl held;
  CHECK_THROWS_WITH_AS(
      convert_sync_batchnorm(held, group),
      "convert_sync_batchnorm: member norm is declared as a plain BatchNorm, which cannot be "
      "replaced in C++: declare it as cpprun::SyncBatchNorm, which acts as a plain BatchNorm "
      "until it is converted",
      DistributedError);
  torch::nn::BatchNorm2d root(3);
  CHECK_THROWS_WITH_AS(
      convert_sync_batchnorm(*root, group),
      "convert_sync_batchnorm: the module itself is a plain BatchNorm and cannot be replaced in "
      "place: declare it as cpprun::SyncBatchNorm",
      DistributedError);
  SyncBatchNorm ready(3);
  CHECK_NOTHROW(convert_sync_batchnorm(*ready, group));
  CHECK_THROWS_AS(SyncBatchNorm(3)->forward(torch::ones({2, 4})), DistributedError);
}

}  // namespace sync_batch_norm_test
