// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/ddp/data_parallel.h"

#include <torch/torch.h>

#include <doctest/doctest.h>

#include <mutex>
#include <thread>

namespace data_parallel_test {

using namespace cpprun;

namespace {

struct NetImpl : torch::nn::Cloneable<NetImpl> {
  NetImpl() { reset(); }
  void reset() override {
    linear = register_module("linear", torch::nn::Linear(3, 4));
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
  }
  torch::Tensor forward(const torch::Tensor& x) { return norm->forward(linear->forward(x)); }
  torch::nn::Linear linear{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Net);

torch::Tensor batch() {
  return torch::sin(torch::arange(24, torch::kFloat)).view({8, 3});
}

}  // namespace

TEST_CASE("replicas return the outputs and the gradients of their parts of the batch") {
  torch::manual_seed(7);
  torch::nn::Linear plain(3, 2);
  const auto clone = std::dynamic_pointer_cast<torch::nn::LinearImpl>(plain->clone());
  DataParallel<torch::nn::Linear> parallel(torch::nn::Linear(clone), all_devices(3));
  const auto expected = plain->forward(batch());
  const auto found = parallel.forward(batch()).cpu();
  CHECK(torch::allclose(found, expected, 1e-5, 1e-6));
  expected.square().sum().backward();
  found.square().sum().backward();
  CHECK(torch::allclose(parallel.module()->weight.grad().cpu(), plain->weight.grad(), 1e-5, 1e-5));
  CHECK(torch::allclose(parallel.module()->bias.grad().cpu(), plain->bias.grad(), 1e-5, 1e-5));
}

TEST_CASE("running statistics are those of the first replica, as in Python") {
  torch::manual_seed(7);
  DataParallel<Net> parallel(Net(), {torch::kCPU, torch::kCPU});
  Net first = Net(std::dynamic_pointer_cast<NetImpl>(parallel.module()->clone()));
  parallel.forward(batch());
  first->forward(batch().narrow(0, 0, 4));
  CHECK(torch::equal(parallel.module()->norm->running_mean, first->norm->running_mean));
  CHECK(parallel.module()->norm->num_batches_tracked.item<int>() == 1);
}

TEST_CASE("a batch that is shorter than the devices uses some of them") {
  DataParallel<torch::nn::Linear> parallel(torch::nn::Linear(3, 2), all_devices(4));
  CHECK(parallel.forward(batch().narrow(0, 0, 2)).size(0) == 2);
  CHECK(parallel.forward(batch().narrow(0, 0, 1)).size(0) == 1);
  CHECK_THROWS_AS(DataParallel<torch::nn::Linear>(torch::nn::Linear(3, 2), {}), DistributedError);
}

TEST_CASE("gradients of replicas whose backward runs in separate threads all arrive") {
  const auto original = torch::zeros({1}).requires_grad_();
  const auto turn = std::make_shared<std::mutex>();
  std::vector<torch::Tensor> replicas;
  for (int i = 0; i < 2; ++i) {
    replicas.push_back(torch::zeros({1}).requires_grad_());
    forward_gradients({replicas.back()}, {original}, turn);
  }
  constexpr int times = 500;
  std::vector<std::thread> threads;
  for (const auto& replica : replicas) {
    threads.emplace_back([replica] {
      for (int i = 0; i < times; ++i) (replica * 1.0).sum().backward();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(original.grad().item<float>() == 2 * times);
}

}  // namespace data_parallel_test
