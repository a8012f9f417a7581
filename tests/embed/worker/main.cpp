// SPDX-License-Identifier: BSD-3-Clause
// A training program: all ranks that the launcher starts train one model.
#include <cpprun/ddp.h>
#include <cpprun/worker.h>
#include <torch/torch.h>

int main() {
  return cpprun::run([](const cpprun::Context& context) {
    const auto group = cpprun::init_process_group(context);
    torch::manual_seed(context.rank.value);  // different data on each rank
    cpprun::DistributedDataParallel<torch::nn::Linear> model(torch::nn::Linear(2, 1), group);
    torch::optim::SGD sgd(model.parameters(), /*lr=*/0.1);
    for (int step = 0; step < 100; ++step) {
      const auto x = torch::randn({16, 2});
      sgd.zero_grad();
      (model.forward(x) - x.sum(1, true)).square().mean().backward();
      sgd.step();
    }
    std::cout << "learned " << model.module()->weight[0][0].item<float>() << '\n';
    return 0;
  });
}
