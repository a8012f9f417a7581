// SPDX-License-Identifier: BSD-3-Clause
#include <cpprun/collectives.h>
#include <cpprun/data_loader_sampler.h>
#include <cpprun/ddp.h>
#include <cpprun/worker.h>
#include <torch/torch.h>

#include <cmath>
#include <iostream>

struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(2, 64));
    second = register_module("second", torch::nn::Linear(64, 64));
    last = register_module("last", torch::nn::Linear(64, 2));
  }
  torch::Tensor forward(torch::Tensor x) {
    return last(torch::tanh(second(torch::tanh(first(x)))));
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, last{nullptr};
};
TORCH_MODULE(Net);

// Points on two spirals. The label says on which one.
struct Spirals : torch::data::datasets::Dataset<Spirals> {
  torch::data::Example<> get(std::size_t index) override {
    const double radius = 0.1 + 0.9 * static_cast<double>(index) / 2000;
    const double angle = 10 * radius + (index % 2 == 0 ? 0 : M_PI);
    const std::vector<float> point{static_cast<float>(radius * std::cos(angle)),
                                   static_cast<float>(radius * std::sin(angle))};
    return {torch::tensor(point), torch::tensor(static_cast<std::int64_t>(index % 2))};
  }
  std::optional<std::size_t> size() const override { return 2000; }
};

int train(const cpprun::Context& context) {
  const auto group = cpprun::init_process_group(context);
  torch::manual_seed(0);
  cpprun::DistributedDataParallel<Net> net(Net(), group);
  torch::optim::Adam optimizer(net.parameters(), 1e-2);
  torch::optim::StepLR scheduler(optimizer, /*step_size=*/10, /*gamma=*/0.5);
  auto loader = torch::data::make_data_loader(
      Spirals().map(torch::data::transforms::Stack<>()),
      cpprun::DataLoaderSampler(
          {.dataset_size = 2000, .replicas = context.world_size, .rank = context.rank.value}),
      /*batch_size=*/100 / context.world_size);
  for (int epoch = 0; epoch < 30; ++epoch) {
    double right = 0;
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      const auto output = net(batch.data);
      torch::cross_entropy_loss(output, batch.target).backward();
      optimizer.step();
      right += output.argmax(1).eq(batch.target).sum().item<double>();
    }
    scheduler.step();
    const auto sum = torch::tensor(right, torch::kDouble);
    cpprun::all_reduce(sum, group);
    if (!context.leads()) continue;
    std::cout << "epoch " << epoch << ": " << sum.item<double>() / 20 << " % right\n" << std::flush;
  }
  if (context.leads()) torch::save(net.module(), "spirals.pt");
  return 0;
}

int main() {
  return cpprun::run(train);
}
